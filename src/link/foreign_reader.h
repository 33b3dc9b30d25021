// Payload that stayed in the sender's memory: fetched with process_vm_readv straight to where it
// belongs, or taken from where the sender has staged it meanwhile, and refused unless the sender
// still vouches for it afterwards.
#pragma once

#include <cstdint>

#include "link/host_page.h"
#include "link/local_area.h"
#include "memory/payload.h"

namespace verbena::link {

struct ForeignCounters {
  uint64_t bytes = 0;
  uint64_t staged = 0;  // of them, taken from the sender's staging
  uint64_t stale = 0;   // refused: queue pair, region or process no longer what it was
  uint64_t failed = 0;  // the system call failed
};

class ForeignReader : public memory::ForeignMemory {
 public:
  explicit ForeignReader(const HostPage& page) : page_(page) {}

  // What the next copy_out() calls refer to: one record of one sender.
  struct Reference {
    LocalArea* area = nullptr;  // the sender's
    uint8_t slot = 0;
    uint32_t generation = 0;
    uint32_t source_qpn = 0;
    uint32_t epoch = 0;       // of the queue pair when it sent
    uint32_t region_key = 0;  // 0: not a READ response
    uint32_t region_epoch = 0;
    uint64_t first_chunk = 0;  // of its payload (link/staging.h); 0: not staged
  };
  void refer_to(const Reference& reference) { reference_ = reference; }

  bool copy_out(std::span<const memory::Segment> segments, size_t offset, uint8_t* to,
                size_t length) override;
  // The record has been dealt with: its sender need not stage what is left of its `bytes`.
  void done(uint32_t bytes);
  const ForeignCounters& counters() const { return counters_; }

 private:
  bool vouched() const;
  bool fetch(std::span<const memory::Segment> segments, size_t offset, uint8_t* to, size_t length);
  bool read(std::span<const memory::Segment> segments, size_t offset, uint8_t* to, size_t length);

  const HostPage& page_;
  Reference reference_;
  ForeignCounters counters_;
};

}  // namespace verbena::link
