// Graphs as they are seen: their edges from the memory of planes, and pictures of them. Needs the standard library
// only.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "eagle/graph/Describe.h"
#include "eagle/graph/Description.h"
#include "eagle/graph/Edges.h"
#include "eagle/graph/Layout.h"
#include "eagle/graph/Markup.h"
#include "eagle/graph/Overlap.h"
#include "eagle/graph/Placement.h"
#include "eagle/graph/Reduced.h"
#include "eagle/graph/Text.h"
