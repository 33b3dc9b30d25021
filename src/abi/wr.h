// Staging for the ibv_wr_*() calls: requests collect between ibv_wr_start() and ibv_wr_complete(),
// then go to the queue pair together or not at all.
#pragma once

#include <memory>
#include <vector>

#include "abi/objects.h"

namespace verbena::abi {

struct Staging {
  // Held from start to complete or abort. A forked child takes it afresh: fork must not wait for a
  // batch that another thread has begun.
  void lock();
  void unlock() { mutex.unlock(); }

  host::Mutex mutex;
  std::atomic<uint32_t> generation{host::fork_generation()};
  uint64_t operations = 0;  // ibv_qp_create_send_ops_flags the queue pair was made for
  uint32_t max_requests = 0;
  uint32_t max_sges = 0;
  uint32_t max_inline = 0;                    // bytes a caller may give
  uint32_t inline_stride = 0;                 // bytes per request kept for them
  std::vector<engine::SendRequest> requests;  // never above max_requests
  engine::SendRequest overflow;               // what calls write to when there is no room
  std::unique_ptr<engine::Sge[]> sges;        // max_sges per request
  std::unique_ptr<uint8_t[]> inline_bytes;
  std::vector<std::pair<ibv_mw*, uint32_t>> binds;  // windows and their rkeys once posted
  int error = 0;                                    // the first one; complete() returns it
};

// The send_ops_flags a queue pair type offers.
uint64_t send_operations_of(ibv_qp_type type);

std::unique_ptr<Staging> make_staging(const ibv_qp_cap& cap, ibv_qp_type type, uint64_t operations);

void fill_work_request_calls(NewestQpEx& qp);

}  // namespace verbena::abi
