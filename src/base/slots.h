// Slots<T>: the storage of a ring whose size is fixed at creation. Zeroed by the allocator and not
// touched here, so that a queue sized for the worst case costs only the pages it has used.
#pragma once

#include <cstdint>
#include <cstdlib>
#include <memory>
#include <new>
#include <type_traits>

namespace verbena {

template <typename T>
class Slots {
  static_assert(std::is_trivially_copyable_v<T> && std::is_trivially_destructible_v<T>);

 public:
  Slots() = default;
  explicit Slots(size_t count) {
    if (count == 0) return;
    slots_.reset(static_cast<T*>(std::calloc(count, sizeof(T))));
    if (!slots_) throw std::bad_alloc();
  }
  T& operator[](size_t index) { return slots_.get()[index]; }
  const T& operator[](size_t index) const { return slots_.get()[index]; }
  T* get() { return slots_.get(); }
  const T* get() const { return slots_.get(); }

 private:
  struct Free {
    void operator()(T* slots) const { std::free(slots); }
  };
  std::unique_ptr<T, Free> slots_;
};

}  // namespace verbena
