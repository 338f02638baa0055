// Only in builds for ThreadSanitizer. librdkafka starts its threads and locks with C11's functions, which GCC 12's
// sanitizer does not watch: the first watched call on such a thread ends the process, and no lock would order
// anything. glibc has these functions as other names of the POSIX ones, with the same types underneath, so handing
// them on changes nothing but that they are seen.

#include <cerrno>
#include <cstdint>
#include <ctime>
#include <memory>

#ifdef __SANITIZE_THREAD__

#include <pthread.h>
#include <threads.h>

namespace {

struct Start {
  thrd_start_t function;
  void* argument;
};

void* Enter(void* given) {
  const std::unique_ptr<Start> start(static_cast<Start*>(given));
  const Start copy = *start;
  return reinterpret_cast<void*>(static_cast<std::intptr_t>(copy.function(copy.argument)));  // NOLINT
}

int ResultOf(int error) {
  switch (error) {
    case 0:
      return thrd_success;
    case ETIMEDOUT:
      return thrd_timedout;
    case EBUSY:
      return thrd_busy;
    case ENOMEM:
      return thrd_nomem;
    default:
      return thrd_error;
  }
}

pthread_mutex_t* Posix(mtx_t* mutex) {
  return reinterpret_cast<pthread_mutex_t*>(mutex);
}  // NOLINT
pthread_cond_t* Posix(cnd_t* condition) {
  return reinterpret_cast<pthread_cond_t*>(condition);
}  // NOLINT

static_assert(sizeof(mtx_t) == sizeof(pthread_mutex_t) && sizeof(cnd_t) == sizeof(pthread_cond_t));

}  // namespace

extern "C" {

int thrd_create(thrd_t* thread, thrd_start_t function, void* argument) {
  auto start = std::make_unique<Start>(Start{function, argument});
  const int error = pthread_create(thread, nullptr, Enter, start.get());
  if (error == 0) (void)start.release();
  return ResultOf(error);
}
int thrd_join(thrd_t thread, int* result) {
  void* value = nullptr;
  const int error = pthread_join(thread, &value);
  if (result != nullptr) *result = static_cast<int>(reinterpret_cast<std::intptr_t>(value));
  return ResultOf(error);
}
int thrd_detach(thrd_t thread) {
  return ResultOf(pthread_detach(thread));
}

int mtx_init(mtx_t* mutex, int type) {
  pthread_mutexattr_t kind;
  pthread_mutexattr_init(&kind);
  if ((type & mtx_recursive) != 0) pthread_mutexattr_settype(&kind, PTHREAD_MUTEX_RECURSIVE);
  const int error = pthread_mutex_init(Posix(mutex), &kind);
  pthread_mutexattr_destroy(&kind);
  return ResultOf(error);
}
void mtx_destroy(mtx_t* mutex) {
  pthread_mutex_destroy(Posix(mutex));
}
int mtx_lock(mtx_t* mutex) {
  return ResultOf(pthread_mutex_lock(Posix(mutex)));
}
int mtx_trylock(mtx_t* mutex) {
  return ResultOf(pthread_mutex_trylock(Posix(mutex)));
}
int mtx_unlock(mtx_t* mutex) {
  return ResultOf(pthread_mutex_unlock(Posix(mutex)));
}

int cnd_init(cnd_t* condition) {
  return ResultOf(pthread_cond_init(Posix(condition), nullptr));
}
void cnd_destroy(cnd_t* condition) {
  pthread_cond_destroy(Posix(condition));
}
int cnd_signal(cnd_t* condition) {
  return ResultOf(pthread_cond_signal(Posix(condition)));
}
int cnd_broadcast(cnd_t* condition) {
  return ResultOf(pthread_cond_broadcast(Posix(condition)));
}
int cnd_wait(cnd_t* condition, mtx_t* mutex) {
  return ResultOf(pthread_cond_wait(Posix(condition), Posix(mutex)));
}
int cnd_timedwait(cnd_t* condition, mtx_t* mutex, const timespec* until) {
  return ResultOf(pthread_cond_timedwait(Posix(condition), Posix(mutex), until));
}
}

#endif
