// Registration as the other memory families (device memory, buffers, imports) use it.
#pragma once

#include "abi/objects.h"

namespace verbena::abi {

inline constexpr uint64_t kPage = 4096;

struct RegionSpec {
  uint64_t iova = 0;
  uint64_t length = 0;
  uint8_t* base = nullptr;
  uint32_t access = 0;
  memory::Backing backing = memory::Backing::kHost;
  Dm* dm = nullptr;
  void* mapping = nullptr;  // unmapped with the region
  size_t mapping_length = 0;
};

// 0 or EINVAL: unknown bits, or remote write/atomic without local write.
int check_access(const char* call, uint32_t access);

// A region of checked arguments; null and errno (ENOMEM) when limits are reached.
ibv_mr* register_region(const char* call, ibv_pd* pd, void* shown_address, const RegionSpec& spec);

}  // namespace verbena::abi
