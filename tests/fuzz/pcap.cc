// Fuzz: a capture file of unknown origin. Records lie inside the file, in order, and end.
#include "wire/pcap.h"
#include "base/check.h"
#include "wire/frame.h"

using namespace verbena::wire;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  PcapReader reader({data, size});
  size_t expected = kPcapFileHeaderBytes;
  while (const auto record = reader.next()) {
    expected += kPcapRecordHeaderBytes;
    CHECK(record->data.data() == data + expected);
    expected += record->data.size();
    CHECK(expected <= size);
    CHECK(record->data.size() <= kPcapSnapLength);
    (void)parse_ethernet(record->data);
  }
  CHECK(!reader.at_end() || expected == size);
  return 0;
}
