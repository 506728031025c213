// C++: a handler, and a destructor that runs while the stack is unwound.
typedef void callback_function();

namespace {
struct guard {
    callback_function *callback;
    ~guard() { callback(); }
};

__attribute__((noinline)) void throws(callback_function *callback)
{
    guard g = { callback };
    throw 1;
}
}

extern "C" __attribute__((visibility("default"))) void thrown_call(callback_function *callback)
{
    try {
        throws(callback);
    } catch (int) {
        callback();
    }
}
