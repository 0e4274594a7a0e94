// Model: says which bins of the hash space should be hot, from a sample of the requests.
//
// A model is asked now and then, by a thread in the background, with how often each bin was asked
// for (BinSample). It answers with the set of bins that should be hot; a request never asks it, but
// looks at the bin's state (hot/bin_states.h). So a new model is one function:
//
//   histogram   a bin is hot that has more than a share of all requests (KVCG, section 7)
//   budget      the bins that are asked for most, until they have filled what the hot side may
//               take: so many keys, or so much of a processor's time
//   chance      each bin by a coin, so that bins move all the time; for tests
//
// Threads. One. Limits. Keys are taken to be spread over bins evenly, as hashes are.
#pragma once

#include <cstdint>
#include <memory>
#include <random>
#include <span>
#include <string_view>
#include <vector>

namespace isotherm {

// What is known of the load, all of it aged (router/bin_counts.h).
struct BinSample {
  std::span<const uint32_t> requests;  // by bin
  uint64_t all_requests = 0;           // their sum
  uint64_t keys = 0;                   // in the store
};

class Model {
 public:
  virtual ~Model() = default;
  virtual std::string_view name() const = 0;
  // Sets hot[bin] for each bin that should be hot; all are false before.
  virtual void choose(const BinSample& sample, std::vector<bool>& hot) = 0;
  // Takes no memory until it is asked again.
  virtual void let_go() {}
};

class HistogramModel : public Model {
 public:
  // KVCG's, with 10,000 bins.
  static constexpr double usual_threshold = 1.3e-5;

  // `threshold`: a share of the requests.
  explicit HistogramModel(double threshold = usual_threshold) : threshold_(threshold) {}
  std::string_view name() const override { return "histogram"; }
  void choose(const BinSample& sample, std::vector<bool>& hot) override;

 private:
  const double threshold_;
};

class BudgetModel : public Model {
 public:
  // How much the hot side may take, and how much of it a hot request takes. A bound of 0 is no
  // bound.
  struct Bounds {
    uint64_t keys = 0;          // that find room on the hot side
    double requests_share = 0;  // of all requests that the hot side has the time to answer
  };
  explicit BudgetModel(const Bounds& bounds) : bounds_(bounds) {}
  std::string_view name() const override { return "budget"; }
  void choose(const BinSample& sample, std::vector<bool>& hot) override;
  void let_go() override { order_ = {}; }

  // The share of requests that the hot side can answer, when it has `threads` threads, a hot
  // request takes `hot_ns`, a cold one takes `cold_ns` of the same threads (to be packed and
  // unpacked), and the cold side answers `cold_per_second` at most: where both sides are busy all
  // the time. 0 where the hot side only costs.
  static double share_for(double threads, double hot_ns, double cold_ns, double cold_per_second);

 private:
  const Bounds bounds_;
  std::vector<uint32_t> order_;
};

class ChanceModel : public Model {
 public:
  std::string_view name() const override { return "chance"; }
  void choose(const BinSample& sample, std::vector<bool>& hot) override;

 private:
  std::mt19937_64 random_;
};

}  // namespace isotherm
