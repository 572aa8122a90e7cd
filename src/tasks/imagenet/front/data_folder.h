#pragma once
#include "tasks/imagenet/front/imagenet_options.h"

namespace lockstep::tasks {

/// DataError where the data folder, of which train and val are to be read, has no such folders: with what it holds and
/// the folder that was meant, where one is near. Nothing happens where --train-data or --val-data name the data, and,
/// unless it `must_exist`, where the folder is not there: a plan may be asked for on another machine.
void refuse_other_data_folder(const ImagenetOptions& options, bool must_exist);

}  // namespace lockstep::tasks
