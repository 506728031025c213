#include "capture.h"
#include "graph.h"
#include "stream.h"
#include "event.h"
CUresult sim_capture_add(struct sim_stream *s, struct sim_work *w) { (void)s; sim_work_free(w); return CUDA_ERROR_NOT_SUPPORTED; }
CUresult sim_capture_check_implicit(struct sim_stream *s) { (void)s; return CUDA_SUCCESS; }
CUresult sim_capture_check_unsafe(void) { return CUDA_SUCCESS; }
CUresult sim_capture_check_stream(struct sim_stream *s) { (void)s; return CUDA_SUCCESS; }
CUresult sim_capture_check_context(struct sim_context *c) { (void)c; return CUDA_SUCCESS; }
CUresult sim_capture_record(struct sim_stream *s, struct sim_event *e, bool x) { (void)s; (void)e; (void)x; return CUDA_SUCCESS; }
CUresult sim_capture_wait(struct sim_stream *s, struct sim_event *e, bool x, enum sim_fn f) { (void)s; (void)e; (void)x; (void)f; return CUDA_SUCCESS; }
CUresult sim_capture_touch_event(struct sim_event *e) { (void)e; return CUDA_SUCCESS; }
void sim_capture_event_forget(struct sim_event *e) { (void)e; }
void sim_capture_abandon(struct sim_stream *s) { (void)s; }
CUresult sim_graph_capture_alloc(struct sim_stream *s, struct sim_device *d, uint64_t n, enum sim_fn f, CUdeviceptr *p) { (void)s; (void)d; (void)n; (void)f; (void)p; return CUDA_ERROR_NOT_SUPPORTED; }
CUresult sim_graph_free_async(struct sim_stream *s, struct sim_block *b, enum sim_fn f) { (void)s; (void)b; (void)f; return CUDA_ERROR_NOT_SUPPORTED; }
CUresult sim_graph_free_now(struct sim_block *b, enum sim_fn f) { (void)b; (void)f; return CUDA_ERROR_NOT_SUPPORTED; }
