// FNV-1a, 64 bits: names made from content (the sysfs tree's folder, GUIDs of interfaces without a
// MAC) that every process of a host must make alike. No defence against someone who wants a clash.
#pragma once

#include <cstdint>
#include <string_view>

namespace verbena {

class Fnv1a {
 public:
  Fnv1a& add(std::string_view bytes) {
    for (unsigned char c : bytes) add(c);
    return *this;
  }
  Fnv1a& add(unsigned char byte) {
    value_ = (value_ ^ byte) * kPrime;
    return *this;
  }
  uint64_t value() const { return value_; }

 private:
  static constexpr uint64_t kPrime = 0x100000001b3;

  uint64_t value_ = 0xcbf29ce484222325;  // the offset basis
};

}  // namespace verbena
