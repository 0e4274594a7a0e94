// Router: decides which keys are hot, while requests run.
//
// A request's side is its bin's state (`of`: one multiplication and one read of a byte). In the
// background a trainer reads the sample (router/bin_counts.h), asks the model (router/model.h) and
// hands what it says to the flow (router/bin_flow.h). What the model says is put into effect when
// it would serve more of the sampled requests hot, by `least_gain` of all, or needs fewer bins, by
// `least_saving` of those that are hot; else the old choice stays, so that chance does not move
// bins. What was refused `most_refusals` times in a row is put into effect anyway.
//
// A wrong choice costs time and nothing else.
//
// Threads. of and counts().note: any. train and step: one, in no epoch. share_hot may be read by
// any.
// Sources. KVCG, section 7.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <vector>

#include "router/bin_counts.h"
#include "router/bin_flow.h"
#include "router/model.h"

namespace isotherm {

class Router {
 public:
  struct Options {
    double least_gain = 0.02;
    double least_saving = 0.2;
    uint32_t most_refusals = 64;
    uint64_t least_sample = 1000;  // requests without which nothing is learned
    uint32_t group = BinFlow::usual_group;
  };

  Router(BinStates& states, EpochDomain& epochs, BinKeeper& keeper, std::unique_ptr<Model> model,
         const Options& options)
      : states_(states),
        options_(options),
        model_(std::move(model)),
        counts_(states),
        flow_(states, epochs, keeper, options.group),
        hot_(states.count()) {}

  BinCounts& counts() { return counts_; }
  const BinFlow& flow() const { return flow_; }

  // Learns from what was sampled; true if the model's choice is put into effect. `keys`: in the
  // store.
  bool train(uint64_t keys);
  // Towards another number of bins, for which all become cold first: begins, or goes on once `step`
  // has cooled them; true when it is done. Nothing may be trained meanwhile.
  bool divide_anew(uint32_t bins);
  // A step of moving bins; true while there is more to do.
  bool step() { return flow_.step(); }
  // Whether the next one only looks if requests that began earlier have ended.
  bool waits() const { return flow_.waits(); }

  // The share of the requests sampled last that are on bins which are to be hot.
  double share_hot() const { return share_hot_.load(std::memory_order_relaxed); }
  uint64_t trainings() const { return trainings_.get(); }
  uint64_t changes() const { return changes_.get(); }

 private:
  // How much a choice is worth.
  struct Worth {
    double requests = 0;  // share of the sample
    double bins = 0;      // share of all
  };
  Worth worth_of(const std::vector<bool>& hot, uint64_t all) const;
  bool pays(const Worth& now, const Worth& then) const;

  BinStates& states_;
  const Options options_;
  std::unique_ptr<Model> model_;
  BinCounts counts_;
  BinFlow flow_;
  std::vector<bool> hot_;  // in effect
  std::vector<uint32_t> sample_;
  uint32_t refusals_ = 0;
  bool cools_all_ = false;  // for another number of bins
  std::atomic<double> share_hot_{0};
  Counter trainings_, changes_;
};

}  // namespace isotherm
