// Gloo's collectives over its ibverbs transport, as PyTorch's distributed programs used them: ranks
// meet in a folder, then every element of each result is looked at.
//
//   gloo_check RANK RANKS FOLDER DEVICE     prints "rank N of M: K values verified"
#include <gloo/algorithm.h>
#include <gloo/allreduce_halving_doubling.h>
#include <gloo/allreduce_ring_chunked.h>
#include <gloo/barrier_all_to_all.h>
#include <gloo/broadcast_one_to_all.h>
#include <gloo/rendezvous/context.h>
#include <gloo/rendezvous/file_store.h>
#include <gloo/transport/ibverbs/device.h>

#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

namespace {

using Context = std::shared_ptr<gloo::rendezvous::Context>;

long verified = 0;
// Algorithms live to the end: Gloo throws when a buffer goes before its last send has completed.
std::vector<std::unique_ptr<gloo::Algorithm>> algorithms;
std::vector<std::vector<float>> buffers;

gloo::Algorithm& keep(std::unique_ptr<gloo::Algorithm> algorithm) {
  return *algorithms.emplace_back(std::move(algorithm));
}

void expect(float got, float wanted, const char* what, size_t index) {
  ++verified;
  if (got == wanted) return;
  std::printf("%s: element %zu is %g, not %g\n", what, index, static_cast<double>(got),
              static_cast<double>(wanted));
  std::exit(1);
}

// Sums of all ranks, again and again in the same buffers, as training steps do.
template <typename Algorithm>
void all_reduce(const Context& context, const char* name, size_t count) {
  std::vector<float>& values = buffers.emplace_back(count);
  gloo::Algorithm& algorithm = keep(
      std::make_unique<Algorithm>(context, std::vector{values.data()}, static_cast<int>(count)));
  const int ranks = context->size;
  for (int round = 0; round < 10; ++round) {
    for (size_t i = 0; i < count; ++i)
      values[i] = static_cast<float>((static_cast<size_t>(context->rank) + 1) * (i % 1000)) +
                  static_cast<float>(round);
    algorithm.run();
    for (size_t i = 0; i < count; ++i)
      expect(values[i],
             static_cast<float>(static_cast<size_t>(ranks * (ranks + 1) / 2) * (i % 1000)) +
                 static_cast<float>(round * ranks),
             name, i);
  }
}

void broadcast(const Context& context, size_t count) {
  for (int root = 0; root < context->size; ++root) {
    std::vector<float>& values = buffers.emplace_back(count);
    for (size_t i = 0; i < count; ++i)
      values[i] =
          context->rank == root ? static_cast<float>(i % 4099) + static_cast<float>(root) : -1;
    keep(std::make_unique<gloo::BroadcastOneToAll<float>>(context, std::vector{values.data()},
                                                          static_cast<int>(count), root))
        .run();
    for (size_t i = 0; i < count; ++i)
      expect(values[i], static_cast<float>(i % 4099) + static_cast<float>(root), "broadcast", i);
  }
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 5) return 2;
  const int rank = std::atoi(argv[1]), ranks = std::atoi(argv[2]);
  gloo::rendezvous::FileStore store(argv[3]);
  std::shared_ptr<gloo::transport::Device> device =
      gloo::transport::ibverbs::CreateDevice({argv[4], 1, 0});
  auto context = std::make_shared<gloo::rendezvous::Context>(rank, ranks);
  context->connectFullMesh(store, device);
  for (size_t count : {size_t{1}, size_t{1000}, size_t{500009}}) {
    all_reduce<gloo::AllreduceRingChunked<float>>(context, "ring sum", count);
    all_reduce<gloo::AllreduceHalvingDoubling<float>>(context, "halving and doubling sum", count);
    broadcast(context, count);
  }
  keep(std::make_unique<gloo::BarrierAllToAll>(context)).run();
  std::printf("rank %d of %d: %ld values verified\n", rank, ranks, verified);
  std::fflush(stdout);
  std::_Exit(0);  // the barrier's own last send may be on its way
}
