#pragma once
#include "published/result_table.h"

namespace lockstep::published {

/// A table without sizes whose texts count, "1x A3", "2x A3": a column of nodes follows, or of GPUs where the text
/// names a GPU. The text stays without its number. Or a table of data, tensor and pipeline ranks: devices are their
/// product.
void add_sizes(ResultTable& result);
/// A column of devices that has one number at every number of nodes is that of a node, unless its name or a rate that
/// does not grow says otherwise.
void take_devices_of_node(ResultTable& result);
/// Nodes and the devices of each, where these differ between the rows (1, 4, 8, 8, 8 devices on 1, 1, 1, 2, 4 nodes):
/// a column of all devices follows.
void add_devices(ResultTable& result);
/// A batch of a device that is run several times before the update, with nothing told of the batch of all, becomes
/// "micro_batch", and "local_batch" their product.
void add_accumulated_batches(ResultTable& result);

}  // namespace lockstep::published
