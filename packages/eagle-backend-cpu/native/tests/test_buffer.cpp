// Buffers in and out without Python: every deleter runs once, on every path.
//
// SPDX-License-Identifier: Apache-2.0
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "check.h"
#include "eagle/interop/Export.h"
#include "eagle/interop/Import.h"
#include "eagle/interop/Requirements.h"

using namespace eagle::interop;

namespace {

int deleted = 0;
double cells[24];

/// A tensor of (2, 3) over the first cells, on the heap, whose deleter frees it.
template <class Managed>
struct Made {
    Managed managed{};
    std::int64_t shape[2] = {2, 3}, strides[2] = {3, 1};
};

template <class Managed>
Managed* make() {
    auto* made = new Made<Managed>;
    made->managed.context = made;
    made->managed.deleter = [](Managed* gone) {
        ++deleted;
        delete static_cast<Made<Managed>*>(gone->context);
    };
    made->managed.tensor = {cells, {dlpack::kCpu, 0}, 2, {dlpack::kFloat, 64, 1}, made->shape, made->strides, 0};
    return &made->managed;
}

/// Whether importing is refused with this in the text, the deleter run by then.
template <class Managed>
bool refused(Managed* managed, const char* text) {
    const int before = deleted;
    try {
        importManaged(managed);
    } catch (const Refused& error) {
        return deleted == before + 1 && std::string(error.what()).find(text) != std::string::npos;
    }
    return false;
}

void chains() {
    dlpack::Versioned* last;
    {
        Buffer first = importManaged(make<dlpack::Legacy>());
        CHECK(first.access == Access::Unknown && !first.writable() && first.contiguous() && first.count == 6);
        first.assumedWritable = true;
        Buffer second = importManaged(exportVersioned(first, first.share));
        CHECK(second.access == Access::ReadWrite && second.data == cells);
        second.aliased = true;
        last = exportVersioned(second, second.share);
    }
    CHECK(deleted == 0 && last->flags == dlpack::kReadOnly && last->tensor.strides[0] == 3);
    last->deleter(last);
    CHECK(deleted == 1);
}

void refusals() {
    auto* versioned = make<dlpack::Versioned>();
    versioned->version = {2, 0};
    CHECK(refused(versioned, "version: found DLPack 2.0, wanted at most major version 1"));
    auto* legacy = make<dlpack::Legacy>();
    legacy->tensor.shape[1] = -1;
    CHECK(refused(legacy, "found extent -1 of axis 1"));
    legacy = make<dlpack::Legacy>();
    legacy->tensor.strides[1] = -1;
    CHECK(refused(legacy, "found the negative stride -1 of axis 1"));
    legacy = make<dlpack::Legacy>();
    legacy->tensor.strides[0] = INT64_MAX;
    CHECK(refused(legacy, "found stride 9223372036854775807 of axis 0"));
    legacy = make<dlpack::Legacy>();
    legacy->tensor.shape[0] = legacy->tensor.shape[1] = INT64_MAX;
    CHECK(refused(legacy, "wanted at most 2**63 - 1 bytes"));
    legacy = make<dlpack::Legacy>();
    legacy->tensor.data = nullptr;
    CHECK(refused(legacy, "a null pointer for 6 elements"));
    legacy = make<dlpack::Legacy>();
    legacy->tensor.device.type = 6;
    CHECK(refused(legacy, "DLPack device type 6"));

    Buffer buffer = importManaged(make<dlpack::Versioned>());
    buffer.access = Access::ReadOnly;
    const int before = deleted;
    try {
        exportLegacy(buffer, buffer.share);
        CHECK(false);
    } catch (const Refused&) {
        CHECK(deleted == before && buffer.share.use_count() == 1);
    }
}

void arrays() {
    const std::int64_t shape[] = {2, 4}, across[] = {32, 16}, windows[] = {8, 8}, odd[] = {32, 12};
    ArrayFacts facts{
        .data = cells, .element = elementOfTypestr("<f8"), .shape = shape, .byteStrides = across, .readOnly = false};
    Buffer buffer = importArray(facts, nullptr);
    CHECK(buffer.strides[0] == 4 && buffer.strides[1] == 2 && buffer.aliased && !buffer.writable());
    facts.byteStrides = windows;
    CHECK(importArray(facts, nullptr).aliased);
    facts.byteStrides.reset();
    buffer = importArray(facts, nullptr);
    CHECK(buffer.contiguous() && buffer.writable() && buffer.strides[0] == 4);
    facts.byteStrides = odd;
    try {
        importArray(facts, nullptr);
        CHECK(false);
    } catch (const Refused& error) {
        CHECK(std::string(error.what()).find("12 bytes of axis 1") != std::string::npos);
    }
    CHECK(!elementOfTypestr(">f8") && !elementOfTypestr("<c8") && !elementOfTypestr("<f") && !elementOfTypestr("|V8"));

    Requirements wanted;
    CHECK(eagle::interop::refusals(wanted, buffer).empty());
    wanted.count = 7;
    wanted.deviceTypes = 1u << dlpack::kCuda;
    wanted.device = "cuda";
    const std::vector<std::string> clauses = eagle::interop::refusals(wanted, buffer);
    CHECK(clauses.size() == 2 && clauses[0] == "count: required 7 elements, got 8");
    CHECK(clauses[1] == "device: required cuda, got cpu");
}

}  // namespace

int main() {
    chains();
    refusals();
    arrays();
    CHECK(std::string(accessName(Access::ReadOnly)) == "read-only");
    return 0;
}
