// SPDX-License-Identifier: GPL-2.0-only
/*
 * The helpers of vram_exporter.ko, which are those of the importer's module
 * and of the exporter in the KUnit suites: an object is in one module only.
 */
#include "../../rust/helpers.c"
#include "helpers.c"
