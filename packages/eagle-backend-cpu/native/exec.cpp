// SPDX-License-Identifier: Apache-2.0
#include "eagle/exec/HostTeam.h"
#include "guard.h"
#include "stream.h"

namespace eagle::cpu {
namespace {

void requireLaunch(const eagle_launch_desc& d) {
    requireNoFlags("desc", d.flags);
    requireDevice(d.device);
    if (d.block == 0) refuse(EAGLE_INVALID_ARGUMENT, "desc.block is 0; the least samples of a piece are wanted");
    if (d.function == 0) refuse(EAGLE_INVALID_ARGUMENT, "desc.function is 0; the address of a host entry is wanted");
    if (d.nparams < 0) {
        refuse(EAGLE_INVALID_ARGUMENT, "desc.nparams is %lld; 0 or more is wanted", static_cast<long long>(d.nparams));
    }
    if (d.nparams > 0 && !d.params) {
        refuse(EAGLE_INVALID_ARGUMENT, "desc.params is NULL; the addresses of %lld arguments are wanted",
               static_cast<long long>(d.nparams));
    }
    if (d.count > 0 && (d.base < 0 || d.base > d.n_samples || d.count > d.n_samples - d.base)) {
        refuse(EAGLE_INVALID_ARGUMENT,
               "desc.base is %lld and desc.count %lld; a range within the %lld samples of desc.n_samples is wanted",
               static_cast<long long>(d.base), static_cast<long long>(d.count), static_cast<long long>(d.n_samples));
    }
}

void recordLaunch(Stream& stream, const eagle_launch_desc& d, plugin::HostEntry entry) {
    for (int64_t i = 0; d.param_sizes && i < d.nparams; ++i) {
        if (d.param_sizes[i] > exec::Arguments::kLargest || (d.param_sizes[i] > 0 && d.params[i] == 0)) {
            refuse(EAGLE_INVALID_ARGUMENT,
                   "desc.param_sizes[%lld] is %llu and desc.params[%lld] %#llx; the address of at most %llu bytes is "
                   "wanted",
                   static_cast<long long>(i), static_cast<unsigned long long>(d.param_sizes[i]),
                   static_cast<long long>(i), static_cast<unsigned long long>(d.params[i]),
                   static_cast<unsigned long long>(exec::Arguments::kLargest));
        }
    }
    stream.sink->add(exec::Launch{entry,
                                  {d.base, d.count, d.n_samples},
                                  d.block,
                                  stream.sink->fusion,
                                  {d.params, d.param_sizes, static_cast<std::size_t>(d.nparams)}});
}

void launch(const eagle_launch_desc& d, int32_t* launched) {
    requireLaunch(d);
    const auto entry = reinterpret_cast<plugin::HostEntry>(static_cast<std::uintptr_t>(d.function));
    // Addresses carried as integers of the same size and form: the entry reads them as pointers.
    static_assert(sizeof(void*) == sizeof(uint64_t));
    const auto params = reinterpret_cast<void* const*>(d.params);
    if (const auto stream = recorder(d.stream)) {
        if (d.count > 0) recordLaunch(*stream, d, entry);
        *launched = d.count > 0;
        return;
    }
    exec::run(entry, params, {d.base, d.count, d.n_samples}, d.block);
    *launched = d.count > 0;
}

}  // namespace
}  // namespace eagle::cpu

using namespace eagle::cpu;

eagle_status eagle_backend_run_device(const eagle_launch_desc* desc, int32_t* launched) {
    return guard("run_device", [&] {
        requireStruct("desc", desc);
        requireOut("launched", launched);
        if (desc->struct_size >= sizeof *desc) {
            launch(*desc, launched);
        } else {
            launch(readStruct("desc", desc), launched);
        }
    });
}
