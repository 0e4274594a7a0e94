#include "isotherm_bench/presets.h"

namespace isotherm::bench {
namespace {

constexpr auto zipf = Distribution::zipf;
constexpr auto uniform = Distribution::uniform;
constexpr auto latest = Distribution::latest;

//                       read update insert scan rmw erase
constexpr Mix all_reads = {100, 0, 0, 0, 0, 0};
constexpr Mix reads_95 = {95, 5, 0, 0, 0, 0};
constexpr Mix reads_90 = {90, 10, 0, 0, 0, 0};
constexpr Mix half = {50, 50, 0, 0, 0, 0};
constexpr Mix all_updates = {0, 100, 0, 0, 0, 0};

constexpr Preset all_presets[] = {
    {"ycsb-a", "YCSB A, update heavy", half, zipf, .99, 24, 1000},
    {"ycsb-b", "YCSB B, read mostly", reads_95, zipf, .99, 24, 1000},
    {"ycsb-c", "YCSB C, read only", all_reads, zipf, .99, 24, 1000},
    {"ycsb-d", "YCSB D, read latest", {95, 0, 5, 0, 0, 0}, latest, .99, 24, 1000},
    {"ycsb-e", "YCSB E, short scans", {0, 0, 5, 95, 0, 0}, zipf, .99, 24, 1000},
    {"ycsb-f", "YCSB F, read-modify-write", {50, 0, 0, 0, 50, 0}, zipf, .99, 24, 1000},
    {"kvcg", "KVCG 8.1: 10 M records", reads_95, zipf, .5, 8, 8},
    {"kvcg-50", "KVCG 8.2, half updates", half, zipf, .5, 8, 8},
    {"kvcg-read", "KVCG 8.2, read only", all_reads, zipf, .5, 8, 8},
    {"kvcg-256", "KVCG 8.1, 256-byte values", reads_95, zipf, .5, 8, 256},
    {"kvcg-ycsb", "KVCG 8.3, skew of YCSB", reads_95, zipf, .99, 8, 8},
    {"mega-kv-a", "Mega-KV 7.1 data set a: 32 GB", reads_95, zipf, .99, 8, 8},
    {"mega-kv-b", "Mega-KV 7.1 data set b", reads_95, zipf, .99, 16, 64},
    {"mega-kv-c", "Mega-KV 7.1 data set c", reads_95, zipf, .99, 32, 512},
    {"mega-kv-d", "Mega-KV 7.1 data set d", reads_95, zipf, .99, 128, 1024},
    {"mega-kv-a-read", "Mega-KV 7.2, data set a, GETs only", all_reads, zipf, .99, 8, 8},
    {"mega-kv-a-uniform", "Mega-KV 7.2, data set a, uniform", reads_95, uniform, .99, 8, 8},
    {"memcachedgpu", "MemcachedGPU 5.3, GETs of 2 bytes: 1.3 M records", all_reads, uniform, .99,
     16, 2},
    {"memcachedgpu-zipf", "MemcachedGPU 5.2, traces: 10 M requests", reads_95, zipf, .99, 16, 2},
    {"memcachedgpu-latest", "MemcachedGPU 5.2, traces", reads_95, latest, .99, 16, 2},
    {"ekrm", "EKRM 5.2: 10 M records (value size not given there)", reads_95, zipf, .99, 24, 64},
    {"ekrm-uniform", "EKRM 5.2", reads_95, uniform, .99, 24, 64},
    {"ekrm-latest", "EKRM 5.2", reads_95, latest, .99, 24, 64},
    {"h-rocks-get", "H-Rocks 7.2: 100 M records", all_reads, uniform, .99, 8, 8},
    {"h-rocks-put", "H-Rocks 7.2", all_updates, uniform, .99, 8, 8},
    {"h-rocks-a", "H-Rocks 7.4: 100 M records", half, zipf, .99, 16, 100, false},
    {"h-rocks-b", "H-Rocks 7.4", reads_90, zipf, .99, 16, 100, false},
    {"h-rocks-c", "H-Rocks 7.4", all_reads, zipf, .99, 16, 100, false},
    {"h-rocks-d", "H-Rocks 7.4", {90, 0, 10, 0, 0, 0}, latest, .99, 16, 100, false},
};

}  // namespace

std::span<const Preset> presets() { return all_presets; }

bool apply_preset(std::string_view name, Workload& workload) {
  for (const Preset& preset : all_presets) {
    if (preset.name != name) continue;
    workload.name = name;
    workload.mix = preset.mix;
    workload.distribution = preset.distribution;
    workload.theta = preset.theta;
    workload.key_size = preset.key_size;
    workload.value_size_min = workload.value_size_max = preset.value_size;
    workload.hot_updates = preset.hot_updates;
    return true;
  }
  return false;
}

}  // namespace isotherm::bench
