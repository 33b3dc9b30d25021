// A queue of objects that carry their own link: joining and leaving allocate nothing, and an object
// is in a queue at most once. What the device keeps of queue pairs that have something to send.
#pragma once

#include <cstddef>

namespace verbena::engine {

// The place of a T in one Chain. Copies of an object are in no chain.
template <typename T>
struct ChainLink {
  ChainLink() = default;
  ChainLink(const ChainLink&) {}
  ChainLink& operator=(const ChainLink&) { return *this; }
  T* next = nullptr;
  bool in = false;
};

template <typename T, ChainLink<T> T::* kLink>
class Chain {
 public:
  bool empty() const { return first_ == nullptr; }
  size_t size() const { return size_; }
  // False: it was in already, and keeps its place.
  bool push_back(T* object) {
    ChainLink<T>& link = object->*kLink;
    if (link.in) return false;
    link.in = true;
    link.next = nullptr;
    (first_ ? (last_->*kLink).next : first_) = object;
    last_ = object;
    ++size_;
    return true;
  }
  T* front() const { return first_; }
  T* pop_front() {  // not of an empty one
    T* object = first_;
    ChainLink<T>& link = object->*kLink;
    first_ = link.next;
    link.in = false;
    --size_;
    return object;
  }
  // Takes `object` out wherever it is. By walking: for objects that go away.
  void erase(T* object) {
    if (!(object->*kLink).in) return;
    T* before = nullptr;
    for (T* at = first_; at != object; at = (at->*kLink).next) before = at;
    (before ? (before->*kLink).next : first_) = (object->*kLink).next;
    if (last_ == object) last_ = before;
    (object->*kLink).in = false;
    --size_;
  }
  void clear() {
    while (first_) pop_front();
  }

 private:
  T* first_ = nullptr;
  T* last_ = nullptr;
  size_t size_ = 0;
};

}  // namespace verbena::engine
