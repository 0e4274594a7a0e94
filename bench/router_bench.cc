// What the router costs a request: the look at its bin's state, and the sample; and a training.
//
//   router_bench [bins]        default 2^20
//
// The hashes are known before, as a batch's are. The reference is the sum of these hashes, in the
// same run; what is shown is the difference.
#include <memory>

#include "bench_support.h"
#include "program_flags.h"
#include "router/router.h"

namespace isotherm::bench {
namespace {

class NoKeeper : public BinKeeper {
 public:
  bool warm(uint32_t) override { return true; }
  bool cool(uint32_t) override { return true; }
};

void run(uint32_t bins) {
  print_environment("router_bench");
  constexpr size_t batch_rows = 512;
  constexpr size_t batches = 2000;
  constexpr int rounds = 9;
  BinStates states(bins);
  EpochDomain epochs;
  NoKeeper keeper;
  Router router(states, epochs, keeper, std::make_unique<BudgetModel>(BudgetModel::Bounds{1000}),
                {});
  for (uint32_t bin = 0; bin < bins; bin += 3) states.set(bin, BinState::hot);
  std::vector<uint64_t> hashes(batch_rows * batches);
  for (size_t i = 0; i < hashes.size(); ++i) hashes[i] = scramble(i + 1);
  RequestSample sample;
  std::vector<double> decides, samples, trains;
  uint64_t sum = 0;
  const auto ns_a_request = [&](auto&& run_batch) {
    const double took = seconds([&] {
      for (size_t at = 0; at < hashes.size(); at += batch_rows) run_batch(&hashes[at]);
    });
    return took / static_cast<double>(hashes.size()) * 1e9;
  };
  for (int round = 0; round < rounds; ++round) {
    const double bare = ns_a_request([&](const uint64_t* batch) {
      for (size_t i = 0; i < batch_rows; ++i) sum += batch[i];
    });
    const double deciding = ns_a_request([&](const uint64_t* batch) {
      for (size_t i = 0; i < batch_rows; ++i) sum += states.of(batch[i]) == BinState::hot;
    });
    const double sampling = ns_a_request([&](const uint64_t* batch) {
      sample.take({batch, batch_rows}, router.counts());
    });
    decides.push_back(deciding - bare);
    samples.push_back(sampling);
    trains.push_back(seconds([&] { router.train(bins * uint64_t{10}); }) * 1e3);
  }
  if (sum == 1) std::printf(" ");
  std::printf("%u bins: deciding %.2f ns a request (goal 5), sampling %.2f ns, training %.1f ms\n",
              bins, median(decides), median(samples), median(trains));
}

}  // namespace
}  // namespace isotherm::bench

int main(int argc, char** argv) {
  using namespace isotherm::bench;
  run(take_number<uint32_t>(argc, argv, "What the router costs a request.", "bins",
                            isotherm::BinStates::usual_count));
}
