// Rows of floats by key in the memory of a GPU, such as embeddings: keys and rows in device memory,
// in the order of a stream.
#include <cuda_runtime_api.h>
#include <isotherm/gpu/row_table.h>

#include <cstdint>
#include <iostream>
#include <stdexcept>
#include <vector>

namespace {

void check(cudaError_t error) {
  if (error != cudaSuccess) throw std::runtime_error(cudaGetErrorString(error));
}

// An array in device memory, and its copies.
template <class T>
class DeviceColumn {
 public:
  explicit DeviceColumn(size_t count) : count_(count) {
    check(cudaMalloc(reinterpret_cast<void**>(&data_), count * sizeof(T)));
  }
  explicit DeviceColumn(const std::vector<T>& from) : DeviceColumn(from.size()) {
    check(cudaMemcpy(data_, from.data(), count_ * sizeof(T), cudaMemcpyHostToDevice));
  }
  ~DeviceColumn() { cudaFree(data_); }
  DeviceColumn(const DeviceColumn&) = delete;
  DeviceColumn& operator=(const DeviceColumn&) = delete;

  T* data() const { return data_; }
  std::vector<T> to_host() const {
    std::vector<T> values(count_);
    check(cudaMemcpy(values.data(), data_, count_ * sizeof(T), cudaMemcpyDeviceToHost));
    return values;
  }

 private:
  size_t count_;
  T* data_ = nullptr;
};

}  // namespace

int main() {
  if (isotherm::gpu::count() == 0) {
    std::cout << "skipped: no GPU\n";
    return 0;
  }
  constexpr size_t width = 128;
  isotherm::gpu::RowTableOptions options;
  options.row_bytes = width * sizeof(float);
  isotherm::gpu::RowTable table(options);

  const DeviceColumn<uint64_t> keys({11, 22, 33});
  std::vector<float> rows(3 * width);
  for (size_t i = 0; i < rows.size(); ++i) rows[i] = static_cast<float>(i);
  const DeviceColumn<float> in(rows);
  table.put(keys.data(), in.data(), 3, nullptr);

  const DeviceColumn<uint64_t> wanted({33, 44});
  const DeviceColumn<float> out(2 * width);
  const DeviceColumn<uint8_t> found(2);
  table.get(wanted.data(), out.data(), found.data(), 2, nullptr);
  const std::vector<float> got = out.to_host();  // the copy waits for the stream
  std::cout << "33: " << got[0] << " … " << got[width - 1]
            << "; 44: " << (found.to_host()[1] != 0 ? "present" : "absent") << "\n";
  const bool right = got[0] == 2 * width && got[width - 1] == 3 * width - 1;
  return right && found.to_host() == std::vector<uint8_t>{1, 0} ? 0 : 1;
}
