// A store whose index lies in the memory of a GPU; it is used as any other.
#include <isotherm/store.h>

#include <iostream>
#include <stdexcept>
#include <string>

int main() {
  isotherm::Options options;
  options.device = isotherm::DeviceChoice::cuda;
  try {
    isotherm::Store store(options);
    isotherm::Handle handle(store);
    handle.put("greeting", "hello");
    std::string value;
    const isotherm::Status status = handle.get("greeting", value);
    std::cout << to_string(status) << ": " << value << "\n";
    return value == "hello" ? 0 : 1;
  } catch (const std::runtime_error& error) {
    std::cout << "skipped: no GPU: " << error.what() << "\n";
    return 0;
  }
}
