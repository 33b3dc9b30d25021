// Fuzz: a capture file of unknown origin. Records lie inside the file, in order, and end.
#include "wire/pcap.h"
#include "base/check.h"
#include "wire/frame.h"

using namespace verbena::wire;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  PcapReader reader({data, size});
  const uint8_t* expected = data + kPcapFileHeaderBytes;
  while (const auto record = reader.next()) {
    CHECK(record->data.data() == expected + kPcapRecordHeaderBytes);
    expected = record->data.data() + record->data.size();
    CHECK(expected <= data + size);
    CHECK(record->data.size() <= kPcapSnapLength);
    (void)parse_ethernet(record->data);
  }
  CHECK(!reader.at_end() || expected == data + size);
  return 0;
}
