// The retrieval loop of EKRM, section 5.2, on one core: the fast part before the line index, beside
// a chained SipHash dictionary with everything allocated one by one (bench/hot_peers.h).
//
//   hot_bench [--keys=10000000] [--accesses=100000000] [--value=32] [--memory=1,2,8]
//             [--loads=zipf,uniform,latest,etc] [--tables=hot,line] [--preset=ekrm-5|ekrm-7|ekrm-8]
//
// Keys of 24 bytes; 95% of the requests get, 5% set. Loads: Zipf .99 over scrambled numbers,
// uniform, latest (Zipf over the age), and etc: key and value sizes as Facebook's ETC pool has them
// (Atikoglu and others, 2012), uniform, 19% of the gets for keys that are not there. Memory: the
// bytes of the fast part in multiples of 32 bytes a key.
//
// Tables: hot (HotTable, two entries a place), line (the index alone), fast1, fast2 and fast4 (a
// fast part of so many entries a place, without bins and without skipping), paper (EKRM as
// printed), slb (a cache of addresses before the dictionary, which only runs one by one). Behind a
// name may stand -4k (without huge pages), -one (one place a key), and of hot -both (the index's
// line is on its way together with the fast part's). Presets are the tables and memories of the
// paper's figures. Every reply is checked. All run on the same requests in turn, a quarter of a
// million at a time, one by one and in batches as the host executor runs them. A row shows medians
// over these turns, of nanoseconds of processor time a request and of ratios to the dictionary,
// which runs one by one.
#include <time.h>

#include <cmath>
#include <memory>
#include <string>

#include "base/instruction_set.h"
#include "base/tile.h"
#include "bench_support.h"
#include "hot_loops.h"
#include "isotherm_bench/distribution.h"
#include "program_flags.h"

namespace isotherm::bench {
namespace {

struct HotOptions {
  uint64_t keys = 10'000'000;
  uint64_t accesses = 100'000'000;
  uint64_t value_bytes = 32;
  std::vector<std::string> memory = {"1", "2", "8"};
  std::vector<std::string> loads = {"zipf", "uniform", "latest", "etc"};
  std::vector<std::string> tables = {"hot", "line"};
};

const HotLoops& choose_loops() {
  switch (instruction_set()) {
    case InstructionSet::avx512:
      return hot_loops_avx512;
    case InstructionSet::avx2:
      return hot_loops_avx2;
    case InstructionSet::plain:
      break;
  }
  return hot_loops_plain;
}

// Sizes and bytes of keys and values, by number.
class KeySizes {
 public:
  KeySizes(const HotOptions& options, bool etc) : options_(options), etc_(etc) {}

  size_t key_bytes(uint32_t number) const {
    if (!etc_) return 24;
    // Generalized extreme values.
    const double x = std::pow(-std::log(share(number, 1)), -0.078688);
    return clamp(30.7984 + 8.20449 * (x - 1) / 0.078688, 16, 250);
  }
  size_t value_bytes(uint32_t number) const {
    if (!etc_) return options_.value_bytes;
    // Generalized Pareto.
    const double x = std::pow(1 - share(number, 2), -0.348238);
    return clamp(214.476 * (x - 1) / 0.348238, 8, 1024);
  }
  // Number in base 16 behind a mix of it, so that no two keys are alike.
  void append_key(uint32_t number, std::vector<char>& bytes) const {
    constexpr char digits[] = "0123456789abcdef";
    const size_t size = key_bytes(number);
    const uint64_t mixed = scramble(number);
    for (size_t i = 0; i < size; ++i) {
      const uint64_t from = i < 8 ? number : mixed;
      bytes.push_back(digits[from >> (4 * (i % 8) + (i >= 16 ? 32 : 0)) & 15]);
    }
  }
  void make_value(uint32_t number, std::string& value) const {
    value.assign(value_bytes(number), 'v');
    const uint64_t word = value_word(number);
    std::memcpy(value.data(), &word, sizeof word);
  }

 private:
  static double share(uint32_t number, uint64_t salt) {
    return (static_cast<double>(scramble(number + (salt << 40)) >> 11) + .5) * 0x1.0p-53;
  }
  static size_t clamp(double size, size_t least, size_t most) {
    return std::clamp(static_cast<size_t>(size), least, most);
  }

  const HotOptions& options_;
  const bool etc_;
};

class Load {
 public:
  Load(const std::string& name, const HotOptions& options, const KeySizes& sizes)
      : name_(name),
        keys_(options.keys),
        sizes_(sizes),
        zipf_(options.keys, .99),
        scramble_(options.keys),
        random_(7, std::hash<std::string>{}(name)) {}

  void draw(size_t rows, HotRequests& requests) {
    requests.rows.clear();
    requests.bytes.clear();
    for (size_t i = 0; i < rows; ++i) {
      uint64_t number = draw_number();
      const bool sets = random_.below(100) < 5;
      const bool present = sets || name_ != "etc" || random_.below(100) >= 19;
      if (!present) number += keys_;
      const auto key = static_cast<uint32_t>(number);
      requests.rows.push_back({key, static_cast<uint32_t>(requests.bytes.size()),
                               static_cast<uint16_t>(sizes_.key_bytes(key)),
                               static_cast<uint16_t>(sizes_.value_bytes(key)), sets, present});
      sizes_.append_key(key, requests.bytes);
    }
  }

 private:
  uint64_t draw_number() {
    if (name_ == "zipf") return scramble_(zipf_.draw(random_));
    if (name_ == "latest") return keys_ - 1 - zipf_.draw(random_);
    return random_.below(keys_);
  }

  const std::string name_;
  const uint64_t keys_;
  const KeySizes& sizes_;
  const Zipf zipf_;
  const Scramble scramble_;
  Random random_;
};

// `find` gives the entry of a key.
template <class Find>
uint64_t run_dictionary(const HotRequests& requests, Find&& find) {
  uint64_t wrong = 0;
  std::string value;
  for (size_t at = 0; at < requests.rows.size(); ++at) {
    const HotRequests::Row& row = requests.rows[at];
    RedisLayout::Entry* entry = find(requests.key(at));
    if (row.sets) {
      value.assign(row.value_bytes, 'v');
      const uint64_t word = value_word(row.number);
      std::memcpy(value.data(), &word, sizeof word);
      RedisLayout::replace(*entry, value);
    } else {
      const std::string_view got =
          entry == nullptr ? std::string_view() : RedisLayout::value_of(*entry);
      wrong += !is_right(row, got.data(), got.size());
    }
  }
  return wrong;
}

// One table with a store of its own.
class Contender {
 public:
  Contender(std::string name, const HotOptions& options, uint64_t bytes, const RedisLayout& redis)
      : name_(std::move(name)), bytes_(bytes), states_(1), tables_{store_} {
    using Pages = HugeBlock::Pages;
    const std::string table = name_.substr(0, name_.find('-'));
    const Pages pages = has("-4k") ? Pages::normal : Pages::huge_1g;
    tables_.both_at_once = has("-both");
    if (table == "hot") {
      table_ = std::make_unique<HotTable>(
          1, [this](uint32_t) { return &store_.index; }, states_, store_.epochs, store_.budget,
          HotTable::Options{bytes, bytes, pages});
      tables_.table = table_.get();
      states_.set(0, BinState::hot);  // while nobody runs and the index is empty
      kind_ = HotKind::hot_table;
    } else if (table == "fast1") {
      kind_ = make(HotKind::fast_1, pages, fast_1_, tables_.fast_1);
    } else if (table == "fast2") {
      kind_ = make(HotKind::fast_2, pages, fast_2_, tables_.fast_2);
    } else if (table == "fast4") {
      kind_ = make(HotKind::fast_4, pages, fast_4_, tables_.fast_4);
    } else if (table == "paper") {
      paper_ = std::make_unique<PaperTable>(store_.items, options.keys, bytes, pages);
      tables_.paper = paper_.get();
      kind_ = HotKind::paper;
    } else if (table == "slb") {
      addresses_ = std::make_unique<AddressCache>(redis, bytes);
    }
  }
  ~Contender() { table_.reset(); }
  Contender(const Contender&) = delete;
  Contender& operator=(const Contender&) = delete;

  const std::string& name() const { return name_; }

  // False where no room is left.
  bool insert(std::string_view key, std::string_view value) {
    if (addresses_) return true;  // the dictionary has them
    const EpochGuard guard(store_.epochs, *store_.slot);
    const Location location = store_.make(key, value);
    if (kind_ == HotKind::paper) return paper_->insert(key, location);
    const uint64_t hash = hash_bytes(key, hot_hash_seed);
    const auto put = [&](bool, uint64_t, Segment&) { return Decision{Action::store, location}; };
    if (kind_ == HotKind::hot_table) {
      table_->update<TilePlain>(store_.index, hash, put);
    } else {
      store_.index.update<TilePlain>(hash, put);
      if (fast_1_) FastPartOf<1>::Change(*fast_1_, hash, 0).put(location);
      if (fast_2_) FastPartOf<2>::Change(*fast_2_, hash, 0).put(location);
      if (fast_4_) FastPartOf<4>::Change(*fast_4_, hash, 0).put(location);
    }
    return true;
  }
  void grow() {
    while (store_.index.wants_step() && store_.index.step(64)) {
    }
  }
  uint64_t run(const HotRequests& requests, bool in_batches) {
    if (addresses_) {
      return run_dictionary(requests, [&](std::string_view key) { return addresses_->find(key); });
    }
    return choose_loops().run(kind_, tables_, requests, in_batches);
  }
  // Of the fast part.
  std::string hits() const {
    double share = 0;
    if (addresses_) {
      share = addresses_->hit_ratio();
    } else if (kind_ == HotKind::line_index) {
      return "";
    } else if (kind_ == HotKind::paper) {
      share = paper_->hit_ratio();
    } else if (kind_ == HotKind::hot_table) {
      share = static_cast<double>(tables_.use.all_hits()) /
              static_cast<double>(tables_.use.all_looks());
    } else {
      share = static_cast<double>(tables_.hits) / static_cast<double>(tables_.looks);
    }
    char text[32];
    std::snprintf(text, sizeof text, "%.1f%%", share * 100);
    return text;
  }

  std::vector<double> nanoseconds[2];  // one by one, in batches
  std::vector<double> ratios[2];

 private:
  template <int size>
  HotKind make(HotKind kind, HugeBlock::Pages pages, std::unique_ptr<FastPartOf<size>>& part,
               FastPartOf<size>*& shown) {
    part = std::make_unique<FastPartOf<size>>(bytes_, pages, hot_hash_seed, has("-one") ? 1 : 2);
    shown = part.get();
    return kind;
  }

  bool has(const char* suffix) const { return name_.find(suffix) != std::string::npos; }

  const std::string name_;
  const uint64_t bytes_;
  HotStore store_;
  BinStates states_;
  HotTables tables_;
  HotKind kind_ = HotKind::line_index;
  std::unique_ptr<HotTable> table_;
  std::unique_ptr<FastPartOf<1>> fast_1_;
  std::unique_ptr<FastPartOf<2>> fast_2_;
  std::unique_ptr<FastPartOf<4>> fast_4_;
  std::unique_ptr<PaperTable> paper_;
  std::unique_ptr<AddressCache> addresses_;
};

double cpu_seconds() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) / 1e9;
}

void demand(bool good, const char* what) {
  if (good) return;
  std::fprintf(stderr, "hot_bench: %s\n", what);
  std::exit(1);
}

// Runs a load on all, in turn.
void run_load(const std::string& name, const std::string& memory, const HotOptions& options,
              const KeySizes& sizes, RedisLayout& redis,
              std::vector<std::unique_ptr<Contender>>& contenders) {
  constexpr size_t chunk = 250'000;
  Load load(name, options, sizes);
  HotRequests requests;
  std::vector<double> redis_ns;
  for (auto& contender : contenders) {
    for (int way : {0, 1}) contender->nanoseconds[way].clear(), contender->ratios[way].clear();
  }
  for (uint64_t done = 0; done < options.accesses; done += chunk) {
    const size_t rows = std::min<uint64_t>(chunk, options.accesses - done);
    load.draw(rows, requests);
    const auto timed = [&](const std::string& table, auto&& run) {
      const double start = cpu_seconds();
      const uint64_t wrong = run();
      const double took = cpu_seconds() - start;
      demand(wrong == 0, ("wrong replies of " + table).c_str());
      return took / static_cast<double>(rows) * 1e9;
    };
    redis_ns.push_back(timed("dictionary", [&] {
      return run_dictionary(requests, [&](std::string_view key) { return redis.find(key); });
    }));
    for (auto& contender : contenders) {
      for (const int way : {0, 1}) {
        const double ns =
            timed(contender->name(), [&] { return contender->run(requests, way == 1); });
        contender->nanoseconds[way].push_back(ns);
        contender->ratios[way].push_back(redis_ns.back() / ns);
      }
    }
  }
  for (const auto& contender : contenders) {
    std::printf("| %s | %s x | %s | %.0f | %.0f | %.0f | %.2f | %.2f | %s |\n", name.c_str(),
                memory.c_str(), contender->name().c_str(), median(redis_ns),
                median(contender->nanoseconds[0]), median(contender->nanoseconds[1]),
                median(contender->ratios[0]), median(contender->ratios[1]),
                contender->hits().c_str());
  }
  std::fflush(stdout);
}

// All loads whose keys have these sizes.
void run_sizes(const HotOptions& options, bool etc) {
  std::vector<std::string> loads;
  for (const std::string& load : options.loads) {
    if ((load == "etc") == etc) loads.push_back(load);
  }
  if (loads.empty()) return;
  const KeySizes sizes(options, etc);
  RedisLayout redis(options.keys);
  const auto fill = [&](auto&& put) {
    std::vector<char> key;
    std::string value;
    for (uint64_t i = 0; i < options.keys; ++i) {
      const auto number = static_cast<uint32_t>(i);
      key.clear();
      sizes.append_key(number, key);
      sizes.make_value(number, value);
      put(std::string_view(key.data(), key.size()), value);
    }
  };
  fill([&](std::string_view key, std::string_view value) { redis.insert(key, value); });
  for (const std::string& memory : options.memory) {
    const auto bytes =
        static_cast<uint64_t>(std::stod(memory) * 32 * static_cast<double>(options.keys));
    std::vector<std::unique_ptr<Contender>> contenders;
    for (const std::string& table : options.tables) {
      auto contender = std::make_unique<Contender>(table, options, bytes, redis);
      uint64_t count = 0;
      bool fits = true;
      fill([&](std::string_view key, std::string_view value) {
        fits = fits && contender->insert(key, value);
        if (++count % 512 == 0) contender->grow();
      });
      if (fits)
        contenders.push_back(std::move(contender));
      else
        std::printf("| | %s x | %s | its parts are too small for these keys |\n", memory.c_str(),
                    table.c_str());
    }
    for (const std::string& load : loads) {
      run_load(load, memory, options, sizes, redis, contenders);
    }
  }
}

// The tables and memories of a figure of EKRM.
void apply_figure(const std::string& name, HotOptions& options) {
  if (name == "ekrm-5") {
    options.memory = {"1", "2", "4", "8"};
    options.tables = {"hot", "paper", "slb", "line"};
  } else if (name == "ekrm-7") {
    options.memory = {"2"};
    options.tables = {"hot", "paper"};
  } else {
    options.memory = {"2"};
    options.tables = {"line", "fast1", "fast1-4k", "fast1-one", "fast2", "fast4", "hot-both"};
  }
}

HotOptions parse(int argc, char** argv) {
  HotOptions options;
  std::string figure;
  ProgramFlags flags("The retrieval loop of EKRM: the fast part before the line index.");
  flags.add("--keys", options.keys).between(1, (uint64_t{1} << 31) - 1);
  flags.add("--accesses", options.accesses, "of each load");
  flags.add("--value", options.value_bytes, "bytes").between(8, 65535);
  const auto memory = flags.add_list("--memory", options.memory, "of 32 bytes a key, multiples");
  flags.add_list("--loads", options.loads);
  const auto tables = flags.add_list("--tables", options.tables);
  flags.add("--preset", figure, "a figure of the paper, in the place of the two")
      .one_of({"ekrm-5", "ekrm-7", "ekrm-8"})
      .excludes(memory)
      .excludes(tables);
  flags.take(argc, argv);
  if (!figure.empty()) apply_figure(figure, options);
  return options;
}

void run(const HotOptions& options) {
  print_environment("hot_bench");
  std::printf(
      "%llu keys, %llu accesses a load, one core; ns a request and ratios to the dictionary\n\n"
      "| load | memory | table | dictionary | one by one | in batches | ratio one by one | ratio "
      "in "
      "batches | hits of the fast part |\n|---|---|---|---|---|---|---|---|---|\n",
      static_cast<unsigned long long>(options.keys),
      static_cast<unsigned long long>(options.accesses));
  for (const bool etc : {false, true}) run_sizes(options, etc);
}

}  // namespace
}  // namespace isotherm::bench

int main(int argc, char** argv) { isotherm::bench::run(isotherm::bench::parse(argc, argv)); }
