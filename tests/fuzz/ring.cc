// Fuzz: the contents of a shared ring, written by a neighbour that may be anything, as the local
// link meets them. Every packet it shows has to be one the wire could have carried.
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <vector>

#include "base/check.h"
#include "link/local_link.h"

using namespace verbena;
using namespace verbena::link;

namespace {

constexpr uint8_t kOwn = 1, kNeighbour = 2;

// Two living slots of one process, by hand instead of by broker.
class Table : public PeerDirectory {
 public:
  Table() {
    for (uint8_t slot : {kOwn, kNeighbour}) {
      page_->rows[slot].generation = 1;
      page_->rows[slot].flags = kSlotAlive | kSlotLocalOk;
      page_->rows[slot].pid = ::getpid();
    }
  }
  const HostPage& host_page() const override { return *page_; }
  Opened open_area(uint8_t slot, int, PeerArea& out) override {
    out.area = areas_[slot == kOwn ? 0 : 1];
    out.generation = 1;
    return Opened::kOpen;
  }
  LocalArea& area(size_t index) { return *areas_[index]; }

 private:
  static LocalArea* map() {
    void* memory = ::mmap(nullptr, sizeof(LocalArea), PROT_READ | PROT_WRITE,
                          MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    CHECK(memory != MAP_FAILED);
    return static_cast<LocalArea*>(memory);
  }
  std::unique_ptr<HostPage> page_ = std::make_unique<HostPage>();
  LocalArea* areas_[2] = {map(), map()};
};

}  // namespace

// Input: 8 bytes of distance from head to tail, then ring contents from the head on.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static Table table;
  static LocalLink link(table, table.area(0), kOwn, 1, -1);
  if (size < 8) return 0;
  uint64_t distance;
  std::memcpy(&distance, data, 8);
  Ring& ring = table.area(0).rings[kNeighbour];
  const uint64_t head = ring.head.load();
  for (size_t i = 8; i < size; ++i) ring.bytes[(head + i - 8) % kRingBytes] = data[i];
  ring.tail.store(head + distance);
  table.area(0).doorbell[0].store(uint64_t{1} << kNeighbour);
  static std::vector<uint8_t> sink(1 << 20);
  link.receive([](const engine::RxPacket& packet) {
    const wire::OpcodeInfo& info = wire::opcode_info(packet.header.opcode);
    CHECK(info.known && packet.header.dest_qpn <= 0xffffff && packet.header.pad_count <= 3);
    CHECK(packet.payload.length == 0 || info.has_payload);
    packet.payload.copy_out(0, sink.data(), std::min<size_t>(packet.payload.length, sink.size()));
  });
  CHECK(ring.head.load() % kRecordAlign == 0);
  return 0;
}
