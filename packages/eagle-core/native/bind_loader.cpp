// eagle._core: Backend, Module and the exceptions of the seam.
//
// SPDX-License-Identifier: Apache-2.0
#include <nanobind/nanobind.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/unique_ptr.h>
#include <nanobind/stl/vector.h>

#include "bindings.h"
#include "loader.h"
#include "released.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace eagle::core {
namespace {

using Handle = std::shared_ptr<const Backend>;

/// Text that may quote a backend: bytes that are no UTF-8 are shown as escapes.
nb::object text(std::string_view bytes) {
    return nb::steal(PyUnicode_DecodeUTF8(bytes.data(), static_cast<Py_ssize_t>(bytes.size()), "backslashreplace"));
}

PyObject* backend_unavailable = nullptr;  // set once by register_loader, kept alive by the module
PyObject* interop_error = nullptr;

PyObject* exception_type(Raises raises) {
    switch (raises) {
        case Raises::kRuntimeError:
            return PyExc_RuntimeError;
        case Raises::kValueError:
            return PyExc_ValueError;
        case Raises::kIndexError:
            return PyExc_IndexError;
        case Raises::kMemoryError:
            return PyExc_MemoryError;
        case Raises::kInteropError:
            return interop_error;
        case Raises::kBackendUnavailable:
            return backend_unavailable;
    }
    return PyExc_RuntimeError;
}

void translate(const std::exception_ptr& caught, void*) {
    try {
        std::rethrow_exception(caught);
    } catch (const Error& error) {
        raise(error);
    }
}

nb::object path(const Backend& backend) {
    return nb::steal(
        PyUnicode_DecodeFSDefaultAndSize(backend.path.data(), static_cast<Py_ssize_t>(backend.path.size())));
}

nb::dict build_info(const Backend& backend) {
    const BuildInfo& info = backend.build_info;
    nb::dict result;
    if (info.abi_version) result["abi_version"] = *info.abi_version;
    if (info.cudart_version) result["cudart_version"] = *info.cudart_version;
    if (info.eagle_version) result["eagle_version"] = text(*info.eagle_version);
    if (info.archs) result["archs"] = text(*info.archs);
    if (info.backend_kind) result["backend_kind"] = text(*info.backend_kind);
    return result;
}

nb::dict group_reasons(const Backend& backend) {
    nb::dict result;
    for (const Group& group : groups()) result[group.name] = text(backend.lacks(group));
    return result;
}

nb::dict device_props(const Backend& backend, int device) {
    eagle_device_props props{};
    props.struct_size = sizeof props;
    backend.call(&Symbols::device_props, device, &props);
    nb::dict result;
    result["device"] = props.device;
    result["name"] = text(std::string(props.name, strnlen(props.name, sizeof props.name)));
#define EAGLE_FIELD(field) result[#field] = props.field
    EAGLE_FIELD(cc_major);
    EAGLE_FIELD(cc_minor);
    EAGLE_FIELD(sm_count);
    EAGLE_FIELD(clock_rate_khz);
    EAGLE_FIELD(memory_clock_rate_khz);
    EAGLE_FIELD(memory_bus_width_bits);
    EAGLE_FIELD(regs_per_block);
    EAGLE_FIELD(regs_per_sm);
    EAGLE_FIELD(warp_size);
    EAGLE_FIELD(shared_mem_per_block);
    EAGLE_FIELD(shared_mem_per_sm);
    EAGLE_FIELD(peak_bytes_per_s);
    EAGLE_FIELD(peak_flops_sp);
    EAGLE_FIELD(peak_flops_dp);
    EAGLE_FIELD(fp64_ratio);
    EAGLE_FIELD(ridge_flops_per_byte_sp);
    EAGLE_FIELD(ridge_flops_per_byte_dp);
#undef EAGLE_FIELD
    return result;
}

/// Names of ordinals 0, 1, ... up to the first the backend refuses.
nb::list devices(const Backend& backend) {
    constexpr int kMostDevices = 64;
    nb::list names;
    if (backend.fn.device_props == nullptr) return names;
    for (int device = 0; device < kMostDevices; ++device) {
        eagle_device_props props{};
        props.struct_size = sizeof props;
        if (backend.fn.device_props(device, &props) != EAGLE_OK) break;
        names.append(text(std::string(props.name, strnlen(props.name, sizeof props.name))));
    }
    return names;
}

std::int32_t team_size(const Backend& backend, std::int32_t n) {
    std::int32_t previous = 0;
    backend.call(&Symbols::team_size, n, &previous);
    return previous;
}

/// One of the EAGLE_RESIDENCY constants.
std::int32_t pointer_residency(const Backend& backend, std::int32_t device, std::uint64_t ptr) {
    std::int32_t where = 0;
    backend.call(&Symbols::pointer_residency, device, ptr, &where);
    return where;
}

/// The address of page-locked memory.
std::uint64_t host_alloc(const Backend& backend, std::uint64_t bytes) {
    std::uint64_t address = 0;
    backend.require(&Symbols::host_free);
    backend.call(&Symbols::host_alloc, bytes, &address);
    return address;
}

/// One launch. `params` is the address of an array of `nparams` addresses; the caller keeps it and what it points at.
std::int32_t run_device(const Backend& backend, std::uint64_t function, std::uint64_t params, std::int64_t nparams,
                        std::int64_t base, std::int64_t count, std::int64_t n_samples, std::uint32_t block,
                        std::uint64_t stream, std::int32_t device) {
    eagle_launch_desc desc{};
    desc.struct_size = sizeof desc;
    desc.device = device;
    desc.block = block;
    desc.function = function;
    desc.params = reinterpret_cast<const std::uint64_t*>(static_cast<std::uintptr_t>(params));
    desc.nparams = nparams;
    desc.base = base;
    desc.count = count;
    desc.n_samples = n_samples;
    desc.stream = stream;
    std::int32_t launched = 0;
    backend.call(&Symbols::run_device, &desc, &launched);
    return launched;
}

nb::tuple symbol_table() {
    nb::list rows;
    for (const SymbolRow& row : symbol_rows()) {
        static constexpr const char* kBound[] = {"REQUIRED", "BIT", "ALONE"};
        rows.append(nb::make_tuple(row.name, row.group, row.minor, kBound[static_cast<int>(row.bound)]));
    }
    return nb::tuple(rows);
}

}  // namespace

void raise(const Error& error) { PyErr_SetObject(exception_type(error.raises), text(error.what()).ptr()); }

const Backend* backend_from(PyObject* object) {
    if (Handle backend; nb::try_cast(nb::handle(object), backend) && backend) return backend.get();
    PyErr_Format(PyExc_TypeError, "_core: wanted a Backend, found %s", Py_TYPE(object)->tp_name);
    return nullptr;
}

void register_loader(nb::module_& m) {
    nb::object unavailable = nb::module_::import_("eagle.errors").attr("BackendUnavailable");
    m.attr("BackendUnavailable") = unavailable;
    backend_unavailable = unavailable.ptr();
    nb::object interop = nb::steal(PyErr_NewExceptionWithDoc(
        "eagle._core.InteropError", "A DLPack exchange was refused.", PyExc_ValueError, nullptr));
    m.attr("InteropError") = interop;
    interop_error = interop.ptr();
    nb::register_exception_translator(translate);

    m.attr("SYMBOLS") = symbol_table();
    nb::list names;
    for (const Group& group : groups()) names.append(group.name);
    m.attr("GROUPS") = nb::tuple(names);

    using release_gil = nb::call_guard<Released>;

    nb::class_<Module>(m, "Module")
        .def("function", &Module::function, "name"_a)
        .def("global_", &Module::global, "name"_a);

    nb::class_<Stream>(m, "Stream")
        .def_prop_ro("ptr", &Stream::ptr)
        .def("synchronize", &Stream::synchronize, release_gil());

    nb::class_<Backend>(m, "Backend")
        .def(nb::new_([](std::string kind, nb::bytes path) {
                 std::string file(path.c_str(), path.size());
                 Released released;
                 return std::const_pointer_cast<Backend>(Backend::open(std::move(kind), std::move(file)));
             }),
             "kind"_a, "path"_a)
        .def_ro("kind", &Backend::kind)
        .def_prop_ro("path", path)
        .def_prop_ro("version",
                     [](const Backend& self) {
                         return std::to_string(self.version >> 16) + "." + std::to_string(self.version & 0xFFFFu);
                     })
        .def_ro("capabilities", &Backend::capabilities)
        .def_prop_ro("device_types", [](const Backend& self) { return nb::tuple(nb::cast(self.device_types)); })
        .def_prop_ro("build_info", build_info)
        .def_prop_ro("groups", group_reasons)
        .def(
            "has", [](const Backend& self, const std::string& symbol) { return self.has(symbol); }, "symbol"_a)
        .def(
            "probe", [](const Backend& self) { self.check(self.fn.probe()); }, release_gil())
        .def("device_props", device_props, "device"_a = -1)
        .def("devices", devices)
        .def("team_size", team_size, "n"_a)
        .def(
            "fence",
            [](const Backend& self, std::int32_t device_type, std::int32_t device, std::int64_t producer,
               std::int64_t consumer) { self.call(&Symbols::fence, device_type, device, producer, consumer); },
            "device_type"_a, "device"_a, "producer"_a, "consumer"_a, release_gil())
        .def("pointer_residency", pointer_residency, "device"_a, "ptr"_a)
        .def("run_device", run_device, "function"_a, "params"_a, "nparams"_a, "base"_a, "count"_a, "n_samples"_a,
             "block"_a, "stream"_a = 0, "device"_a = -1, release_gil())
        .def(
            "module_load",
            [](Handle self, nb::bytes image, int device) {
                const std::string_view view(image.c_str(), image.size());
                Released released;
                return std::make_unique<Module>(std::move(self), view, device);
            },
            "image"_a, "device"_a = -1)
        .def(
            "stream_create",
            [](Handle self, int device) {
                Released released;
                return std::make_unique<Stream>(std::move(self), device);
            },
            "device"_a = -1)
        .def(
            "memcpy",
            [](const Backend& self, std::uint64_t dst, std::uint64_t src, std::uint64_t bytes, std::int32_t direction,
               std::uint64_t stream) { self.call(&Symbols::memcpy, dst, src, bytes, direction, stream); },
            "dst"_a, "src"_a, "bytes"_a, "direction"_a, "stream"_a = 0, release_gil())
        .def(
            "memcpy_device",
            [](const Backend& self, std::uint64_t dst, std::uint64_t src, std::uint64_t bytes, std::uint64_t stream) {
                self.call(&Symbols::memcpy_device, dst, src, bytes, stream);
            },
            "dst"_a, "src"_a, "bytes"_a, "stream"_a = 0, release_gil())
        .def("host_alloc", host_alloc, "bytes"_a, release_gil())
        .def(
            "host_free", [](const Backend& self, std::uint64_t ptr) { self.call(&Symbols::host_free, ptr); }, "ptr"_a,
            release_gil())
        .def("__repr__", [](const Backend& self) { return text("<" + self.title() + ">"); });
}

}  // namespace eagle::core
