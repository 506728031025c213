#!/bin/bash
# Part 3 of test_random.sh, so that the parts run at once.
NXMEM_TEST_PART=3 exec "$(dirname "$0")/test_random.sh"
