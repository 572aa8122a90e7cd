#include "config/pretrained_weights.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <vector>

#include "config/hub_cache.h"
#include "config/hub_names.h"
#include "core/error.h"
#include "core/files.h"
#include "core/strings.h"

namespace lockstep::config {
namespace fs = std::filesystem;
namespace {

/// Weights that OpenCLIP 3.3.0 knows by a tag, of models that are here: where the Hugging Face Hub has them, and the
/// name of the file that older releases put into their own cache ("": none).
struct PretrainedRow {
  std::string_view model, tag, repository, file;
};
constexpr PretrainedRow kPretrained[] = {
    {"RN50", "openai", "timm/resnet50_clip.openai", "RN50.pt"},
    {"RN50", "yfcc15m", "timm/resnet50_clip.yfcc15m", "rn50-quickgelu-yfcc15m-455df137.pt"},
    {"RN50", "cc12m", "timm/resnet50_clip.cc12m", "rn50-quickgelu-cc12m-f000538c.pt"},
    {"RN101", "openai", "timm/resnet101_clip.openai", "RN101.pt"},
    {"RN101", "yfcc15m", "timm/resnet101_clip.yfcc15m", "rn101-quickgelu-yfcc15m-3e04b30e.pt"},
    {"RN50x4", "openai", "timm/resnet50x4_clip.openai", "RN50x4.pt"},
    {"RN50x16", "openai", "timm/resnet50x16_clip.openai", "RN50x16.pt"},
    {"RN50x64", "openai", "timm/resnet50x64_clip.openai", "RN50x64.pt"},
    {"ViT-B-32", "openai", "timm/vit_base_patch32_clip_224.openai", "ViT-B-32.pt"},
    {"ViT-B-32", "laion400m_e31", "timm/vit_base_patch32_clip_224.laion400m_e31",
     "vit_b_32-quickgelu-laion400m_e31-d867053b.pt"},
    {"ViT-B-32", "laion400m_e32", "timm/vit_base_patch32_clip_224.laion400m_e32",
     "vit_b_32-quickgelu-laion400m_e32-46683a32.pt"},
    {"ViT-B-32", "laion2b_e16", "timm/vit_base_patch32_clip_224.laion2b_e16", "vit_b_32-laion2b_e16-af8dbd0c.pth"},
    {"ViT-B-32", "laion2b_s34b_b79k", "laion/CLIP-ViT-B-32-laion2B-s34B-b79K", ""},
    {"ViT-B-32", "datacomp_xl_s13b_b90k", "laion/CLIP-ViT-B-32-DataComp.XL-s13B-b90K", ""},
    {"ViT-B-32", "datacomp_m_s128m_b4k", "laion/CLIP-ViT-B-32-DataComp.M-s128M-b4K", ""},
    {"ViT-B-32", "commonpool_m_clip_s128m_b4k", "laion/CLIP-ViT-B-32-CommonPool.M.clip-s128M-b4K", ""},
    {"ViT-B-32", "commonpool_m_laion_s128m_b4k", "laion/CLIP-ViT-B-32-CommonPool.M.laion-s128M-b4K", ""},
    {"ViT-B-32", "commonpool_m_image_s128m_b4k", "laion/CLIP-ViT-B-32-CommonPool.M.image-s128M-b4K", ""},
    {"ViT-B-32", "commonpool_m_text_s128m_b4k", "laion/CLIP-ViT-B-32-CommonPool.M.text-s128M-b4K", ""},
    {"ViT-B-32", "commonpool_m_basic_s128m_b4k", "laion/CLIP-ViT-B-32-CommonPool.M.basic-s128M-b4K", ""},
    {"ViT-B-32", "commonpool_m_s128m_b4k", "laion/CLIP-ViT-B-32-CommonPool.M-s128M-b4K", ""},
    {"ViT-B-32", "datacomp_s_s13m_b4k", "laion/CLIP-ViT-B-32-DataComp.S-s13M-b4K", ""},
    {"ViT-B-32", "commonpool_s_clip_s13m_b4k", "laion/CLIP-ViT-B-32-CommonPool.S.clip-s13M-b4K", ""},
    {"ViT-B-32", "commonpool_s_laion_s13m_b4k", "laion/CLIP-ViT-B-32-CommonPool.S.laion-s13M-b4K", ""},
    {"ViT-B-32", "commonpool_s_image_s13m_b4k", "laion/CLIP-ViT-B-32-CommonPool.S.image-s13M-b4K", ""},
    {"ViT-B-32", "commonpool_s_text_s13m_b4k", "laion/CLIP-ViT-B-32-CommonPool.S.text-s13M-b4K", ""},
    {"ViT-B-32", "commonpool_s_basic_s13m_b4k", "laion/CLIP-ViT-B-32-CommonPool.S.basic-s13M-b4K", ""},
    {"ViT-B-32", "commonpool_s_s13m_b4k", "laion/CLIP-ViT-B-32-CommonPool.S-s13M-b4K", ""},
    {"ViT-B-32", "metaclip_400m", "timm/vit_base_patch32_clip_224.metaclip_400m", "b32_400m.pt"},
    {"ViT-B-32", "metaclip_fullcc", "timm/vit_base_patch32_clip_224.metaclip_2pt5b", "b32_fullcc2.5b.pt"},
    {"ViT-B-32-256", "datacomp_s34b_b86k", "laion/CLIP-ViT-B-32-256x256-DataComp-s34B-b86K", ""},
    {"ViT-B-16", "openai", "timm/vit_base_patch16_clip_224.openai", "ViT-B-16.pt"},
    {"ViT-B-16", "laion400m_e31", "timm/vit_base_patch16_clip_224.laion400m_e31", "vit_b_16-laion400m_e31-00efa78f.pt"},
    {"ViT-B-16", "laion400m_e32", "timm/vit_base_patch16_clip_224.laion400m_e32", "vit_b_16-laion400m_e32-55e67d44.pt"},
    {"ViT-B-16", "laion2b_s34b_b88k", "laion/CLIP-ViT-B-16-laion2B-s34B-b88K", ""},
    {"ViT-B-16", "datacomp_xl_s13b_b90k", "laion/CLIP-ViT-B-16-DataComp.XL-s13B-b90K", ""},
    {"ViT-B-16", "datacomp_l_s1b_b8k", "laion/CLIP-ViT-B-16-DataComp.L-s1B-b8K", ""},
    {"ViT-B-16", "commonpool_l_clip_s1b_b8k", "laion/CLIP-ViT-B-16-CommonPool.L.clip-s1B-b8K", ""},
    {"ViT-B-16", "commonpool_l_laion_s1b_b8k", "laion/CLIP-ViT-B-16-CommonPool.L.laion-s1B-b8K", ""},
    {"ViT-B-16", "commonpool_l_image_s1b_b8k", "laion/CLIP-ViT-B-16-CommonPool.L.image-s1B-b8K", ""},
    {"ViT-B-16", "commonpool_l_text_s1b_b8k", "laion/CLIP-ViT-B-16-CommonPool.L.text-s1B-b8K", ""},
    {"ViT-B-16", "commonpool_l_basic_s1b_b8k", "laion/CLIP-ViT-B-16-CommonPool.L.basic-s1B-b8K", ""},
    {"ViT-B-16", "commonpool_l_s1b_b8k", "laion/CLIP-ViT-B-16-CommonPool.L-s1B-b8K", ""},
    {"ViT-B-16", "dfn2b", "apple/DFN2B-CLIP-ViT-B-16", ""},
    {"ViT-B-16", "metaclip_400m", "timm/vit_base_patch16_clip_224.metaclip_400m", "b16_400m.pt"},
    {"ViT-B-16", "metaclip_fullcc", "timm/vit_base_patch16_clip_224.metaclip_2pt5b", "b16_fullcc2.5b.pt"},
    {"ViT-B-16-plus-240", "laion400m_e31", "timm/vit_base_patch16_plus_clip_240.laion400m_e31",
     "vit_b_16_plus_240-laion400m_e31-8fb26589.pt"},
    {"ViT-B-16-plus-240", "laion400m_e32", "timm/vit_base_patch16_plus_clip_240.laion400m_e31",
     "vit_b_16_plus_240-laion400m_e32-699c4b84.pt"},
    {"ViT-L-14", "openai", "timm/vit_large_patch14_clip_224.openai", "ViT-L-14.pt"},
    {"ViT-L-14", "laion400m_e31", "timm/vit_large_patch14_clip_224.laion400m_e31",
     "vit_l_14-laion400m_e31-69988bb6.pt"},
    {"ViT-L-14", "laion400m_e32", "timm/vit_large_patch14_clip_224.laion400m_e32",
     "vit_l_14-laion400m_e32-3d133497.pt"},
    {"ViT-L-14", "laion2b_s32b_b82k", "laion/CLIP-ViT-L-14-laion2B-s32B-b82K", ""},
    {"ViT-L-14", "datacomp_xl_s13b_b90k", "laion/CLIP-ViT-L-14-DataComp.XL-s13B-b90K", ""},
    {"ViT-L-14", "commonpool_xl_clip_s13b_b90k", "laion/CLIP-ViT-L-14-CommonPool.XL.clip-s13B-b90K", ""},
    {"ViT-L-14", "commonpool_xl_laion_s13b_b90k", "laion/CLIP-ViT-L-14-CommonPool.XL.laion-s13B-b90K", ""},
    {"ViT-L-14", "commonpool_xl_s13b_b90k", "laion/CLIP-ViT-L-14-CommonPool.XL-s13B-b90K", ""},
    {"ViT-L-14", "metaclip_400m", "timm/vit_large_patch14_clip_224.metaclip_400m", "l14_400m.pt"},
    {"ViT-L-14", "metaclip_fullcc", "timm/vit_large_patch14_clip_224.metaclip_2pt5b", "l14_fullcc2.5b.pt"},
    {"ViT-L-14", "dfn2b", "apple/DFN2B-CLIP-ViT-L-14", ""},
    {"ViT-L-14", "dfn2b_s39b", "apple/DFN2B-CLIP-ViT-L-14-39B", ""},
    {"ViT-L-14-336", "openai", "timm/vit_large_patch14_clip_336.openai", "ViT-L-14-336px.pt"},
    {"ViT-H-14", "laion2b_s32b_b79k", "laion/CLIP-ViT-H-14-laion2B-s32B-b79K", ""},
    {"ViT-H-14", "metaclip_fullcc", "timm/vit_huge_patch14_clip_224.metaclip_2pt5b", "h14_fullcc2.5b.pt"},
    {"ViT-H-14", "metaclip_altogether", "timm/vit_huge_patch14_clip_224.metaclip_altogether", "h14_v1.2_altogether.pt"},
    {"ViT-H-14", "dfn5b", "apple/DFN5B-CLIP-ViT-H-14", ""},
    {"ViT-H-14-378", "dfn5b", "apple/DFN5B-CLIP-ViT-H-14-378", ""},
    {"ViT-g-14", "laion2b_s12b_b42k", "laion/CLIP-ViT-g-14-laion2B-s12B-b42K", ""},
    {"ViT-g-14", "laion2b_s34b_b88k", "laion/CLIP-ViT-g-14-laion2B-s34B-b88K", ""},
    {"ViT-bigG-14", "laion2b_s39b_b160k", "laion/CLIP-ViT-bigG-14-laion2B-39B-b160k", ""},
    {"ViT-bigG-14", "metaclip_fullcc", "timm/vit_gigantic_patch14_clip_224.metaclip_2pt5b", "G14_fullcc2.5b.pt"},
    {"roberta-ViT-B-32", "laion2b_s12b_b32k", "laion/CLIP-ViT-B-32-roberta-base-laion2B-s12B-b32k", ""},
    {"xlm-roberta-base-ViT-B-32", "laion5b_s13b_b90k", "laion/CLIP-ViT-B-32-xlm-roberta-base-laion5B-s13B-b90k", ""},
    {"xlm-roberta-large-ViT-H-14", "frozen_laion5b_s13b_b90k",
     "laion/CLIP-ViT-H-14-frozen-xlm-roberta-large-laion5B-s13B-b90k", ""},
    {"nllb-clip-base", "v1", "visheratin/nllb-clip-base-oc", ""},
    {"nllb-clip-large", "v1", "visheratin/nllb-clip-large-oc", ""},
    {"nllb-clip-base-siglip", "v1", "visheratin/nllb-clip-base-siglip", ""},
    {"nllb-clip-base-siglip", "mrl", "visheratin/nllb-siglip-mrl-base", ""},
    {"nllb-clip-large-siglip", "v1", "visheratin/nllb-clip-large-siglip", ""},
    {"nllb-clip-large-siglip", "mrl", "visheratin/nllb-siglip-mrl-large", ""},
    {"convnext_base", "laion400m_s13b_b51k", "laion/CLIP-convnext_base-laion400M-s13B-b51K", ""},
    {"convnext_base_w", "laion2b_s13b_b82k", "laion/CLIP-convnext_base_w-laion2B-s13B-b82K", ""},
    {"convnext_base_w", "laion2b_s13b_b82k_augreg", "laion/CLIP-convnext_base_w-laion2B-s13B-b82K-augreg", ""},
    {"convnext_base_w", "laion_aesthetic_s13b_b82k", "laion/CLIP-convnext_base_w-laion_aesthetic-s13B-b82K", ""},
    {"convnext_base_w_320", "laion_aesthetic_s13b_b82k", "laion/CLIP-convnext_base_w_320-laion_aesthetic-s13B-b82K",
     ""},
    {"convnext_base_w_320", "laion_aesthetic_s13b_b82k_augreg",
     "laion/CLIP-convnext_base_w_320-laion_aesthetic-s13B-b82K-augreg", ""},
    {"convnext_large_d", "laion2b_s26b_b102k_augreg", "laion/CLIP-convnext_large_d.laion2B-s26B-b102K-augreg", ""},
    {"convnext_large_d_320", "laion2b_s29b_b131k_ft", "laion/CLIP-convnext_large_d_320.laion2B-s29B-b131K-ft", ""},
    {"convnext_large_d_320", "laion2b_s29b_b131k_ft_soup", "laion/CLIP-convnext_large_d_320.laion2B-s29B-b131K-ft-soup",
     ""},
    {"convnext_xxlarge", "laion2b_s34b_b82k_augreg", "laion/CLIP-convnext_xxlarge-laion2B-s34B-b82K-augreg", ""},
    {"convnext_xxlarge", "laion2b_s34b_b82k_augreg_rewind",
     "laion/CLIP-convnext_xxlarge-laion2B-s34B-b82K-augreg-rewind", ""},
    {"convnext_xxlarge", "laion2b_s34b_b82k_augreg_soup", "laion/CLIP-convnext_xxlarge-laion2B-s34B-b82K-augreg-soup",
     ""},
    {"EVA01-g-14", "laion400m_s11b_b41k", "timm/eva_giant_patch14_clip_224.laion400m_s11b_b41k", ""},
    {"EVA01-g-14-plus", "merged2b_s11b_b114k", "timm/eva_giant_patch14_plus_clip_224.merged2b_s11b_b114k", ""},
    {"EVA02-B-16", "merged2b_s8b_b131k", "timm/eva02_base_patch16_clip_224.merged2b_s8b_b131k", ""},
    {"EVA02-L-14", "merged2b_s4b_b131k", "timm/eva02_large_patch14_clip_224.merged2b_s4b_b131k", ""},
    {"EVA02-L-14-336", "merged2b_s6b_b61k", "timm/eva02_large_patch14_clip_336.merged2b_s6b_b61k", ""},
    {"EVA02-E-14", "laion2b_s4b_b115k", "timm/eva02_enormous_patch14_clip_224.laion2b_s4b_b115k", ""},
    {"EVA02-E-14-plus", "laion2b_s9b_b144k", "timm/eva02_enormous_patch14_plus_clip_224.laion2b_s9b_b144k", ""},
    {"MobileCLIP-B", "datacompdr", "apple/MobileCLIP-B-OpenCLIP", ""},
    {"MobileCLIP-B", "datacompdr_lt", "apple/MobileCLIP-B-LT-OpenCLIP", ""},
    {"MobileCLIP-S1", "datacompdr", "apple/MobileCLIP-S1-OpenCLIP", ""},
    {"MobileCLIP-S2", "datacompdr", "apple/MobileCLIP-S2-OpenCLIP", ""},
    {"MobileCLIP2-B", "dfndr2b", "timm/MobileCLIP2-B-OpenCLIP", ""},
    {"MobileCLIP2-S0", "dfndr2b", "timm/MobileCLIP2-S0-OpenCLIP", ""},
    {"MobileCLIP2-S2", "dfndr2b", "timm/MobileCLIP2-S2-OpenCLIP", ""},
    {"MobileCLIP2-S3", "dfndr2b", "timm/MobileCLIP2-S3-OpenCLIP", ""},
    {"MobileCLIP2-S4", "dfndr2b", "timm/MobileCLIP2-S4-OpenCLIP", ""},
    {"MobileCLIP2-L-14", "dfndr2b", "timm/MobileCLIP2-L-14-OpenCLIP", ""},
    {"PE-Core-T-16-384", "meta", "timm/PE-Core-T-16-384", ""},
    {"PE-Core-S-16-384", "meta", "timm/PE-Core-S-16-384", ""},
    {"PE-Core-B-16", "meta", "timm/PE-Core-B-16", ""},
    {"PE-Core-L-14-336", "meta", "timm/PE-Core-L-14-336", ""},
    {"PE-Core-bigG-14-448", "meta", "timm/PE-Core-bigG-14-448", ""},
    {"ViTamin-S", "datacomp1b", "jienengchen/ViTamin-S", ""},
    {"ViTamin-S-LTT", "datacomp1b", "jienengchen/ViTamin-S-LTT", ""},
    {"ViTamin-B", "datacomp1b", "jienengchen/ViTamin-B", ""},
    {"ViTamin-B-LTT", "datacomp1b", "jienengchen/ViTamin-B-LTT", ""},
    {"ViTamin-L", "datacomp1b", "jienengchen/ViTamin-L-224px", ""},
    {"ViTamin-L-256", "datacomp1b", "jienengchen/ViTamin-L-256px", ""},
    {"ViTamin-L-336", "datacomp1b", "jienengchen/ViTamin-L-336px", ""},
    {"ViTamin-L-384", "datacomp1b", "jienengchen/ViTamin-L-384px", ""},
    {"ViTamin-L2", "datacomp1b", "jienengchen/ViTamin-L2-224px", ""},
    {"ViTamin-L2-256", "datacomp1b", "jienengchen/ViTamin-L2-256px", ""},
    {"ViTamin-L2-336", "datacomp1b", "jienengchen/ViTamin-L2-336px", ""},
    {"ViTamin-L2-384", "datacomp1b", "jienengchen/ViTamin-L2-384px", ""},
    {"ViTamin-XL-256", "datacomp1b", "jienengchen/ViTamin-XL-256px", ""},
    {"ViTamin-XL-336", "datacomp1b", "jienengchen/ViTamin-XL-336px", ""},
    {"ViTamin-XL-384", "datacomp1b", "jienengchen/ViTamin-XL-384px", ""},
    {"coca_ViT-B-32", "laion2b_s13b_b90k", "laion/CoCa-ViT-B-32-laion2B-s13B-b90k", ""},
    {"coca_ViT-B-32", "mscoco_finetuned_laion2b_s13b_b90k", "laion/mscoco_finetuned_CoCa-ViT-B-32-laion2B-s13B-b90k",
     ""},
    {"coca_ViT-L-14", "laion2b_s13b_b90k", "laion/CoCa-ViT-L-14-laion2B-s13B-b90k", ""},
    {"coca_ViT-L-14", "mscoco_finetuned_laion2b_s13b_b90k", "laion/mscoco_finetuned_CoCa-ViT-L-14-laion2B-s13B-b90k",
     ""},
    {"ViT-B-16-SigLIP", "webli", "timm/ViT-B-16-SigLIP", ""},
    {"ViT-B-16-SigLIP-256", "webli", "timm/ViT-B-16-SigLIP-256", ""},
    {"ViT-B-16-SigLIP-i18n-256", "webli", "timm/ViT-B-16-SigLIP-i18n-256", ""},
    {"ViT-B-16-SigLIP-384", "webli", "timm/ViT-B-16-SigLIP-384", ""},
    {"ViT-B-16-SigLIP-512", "webli", "timm/ViT-B-16-SigLIP-512", ""},
    {"ViT-L-16-SigLIP-256", "webli", "timm/ViT-L-16-SigLIP-256", ""},
    {"ViT-L-16-SigLIP-384", "webli", "timm/ViT-L-16-SigLIP-384", ""},
    {"ViT-SO400M-14-SigLIP", "webli", "timm/ViT-SO400M-14-SigLIP", ""},
    {"ViT-SO400M-16-SigLIP-i18n-256", "webli", "timm/ViT-SO400M-16-SigLIP-i18n-256", ""},
    {"ViT-SO400M-14-SigLIP-378", "webli", "timm/ViT-SO400M-14-SigLIP-384", ""},
    {"ViT-SO400M-14-SigLIP-384", "webli", "timm/ViT-SO400M-14-SigLIP-384", ""},
    {"ViT-B-32-SigLIP2-256", "webli", "timm/ViT-B-32-SigLIP2-256", ""},
    {"ViT-B-16-SigLIP2", "webli", "timm/ViT-B-16-SigLIP2", ""},
    {"ViT-B-16-SigLIP2-256", "webli", "timm/ViT-B-16-SigLIP2-256", ""},
    {"ViT-B-16-SigLIP2-384", "webli", "timm/ViT-B-16-SigLIP2-384", ""},
    {"ViT-B-16-SigLIP2-512", "webli", "timm/ViT-B-16-SigLIP2-512", ""},
    {"ViT-L-16-SigLIP2-256", "webli", "timm/ViT-L-16-SigLIP2-256", ""},
    {"ViT-L-16-SigLIP2-384", "webli", "timm/ViT-L-16-SigLIP2-384", ""},
    {"ViT-L-16-SigLIP2-512", "webli", "timm/ViT-L-16-SigLIP2-512", ""},
    {"ViT-SO400M-14-SigLIP2", "webli", "timm/ViT-SO400M-14-SigLIP2", ""},
    {"ViT-SO400M-14-SigLIP2-378", "webli", "timm/ViT-SO400M-14-SigLIP2-378", ""},
    {"ViT-SO400M-16-SigLIP2-256", "webli", "timm/ViT-SO400M-16-SigLIP2-256", ""},
    {"ViT-SO400M-16-SigLIP2-384", "webli", "timm/ViT-SO400M-16-SigLIP2-384", ""},
    {"ViT-SO400M-16-SigLIP2-512", "webli", "timm/ViT-SO400M-16-SigLIP2-512", ""},
    {"ViT-gopt-16-SigLIP2-256", "webli", "timm/ViT-gopt-16-SigLIP2-256", ""},
    {"ViT-gopt-16-SigLIP2-384", "webli", "timm/ViT-gopt-16-SigLIP2-384", ""},
    {"ViT-L-14-CLIPA", "datacomp1b", "UCSC-VLAA/ViT-L-14-CLIPA-datacomp1B", ""},
    {"ViT-L-14-CLIPA-336", "datacomp1b", "UCSC-VLAA/ViT-L-14-CLIPA-336-datacomp1B", ""},
    {"ViT-H-14-CLIPA", "datacomp1b", "UCSC-VLAA/ViT-H-14-CLIPA-datacomp1B", ""},
    {"ViT-H-14-CLIPA-336", "laion2b", "UCSC-VLAA/ViT-H-14-CLIPA-336-laion2B", ""},
    {"ViT-H-14-CLIPA-336", "datacomp1b", "UCSC-VLAA/ViT-H-14-CLIPA-336-datacomp1B", ""},
    {"ViT-bigG-14-CLIPA", "datacomp1b", "UCSC-VLAA/ViT-bigG-14-CLIPA-datacomp1B", ""},
    {"ViT-bigG-14-CLIPA-336", "datacomp1b", "UCSC-VLAA/ViT-bigG-14-CLIPA-336-datacomp1B", ""},
    {"ViT-H-14-worldwide", "metaclip2_worldwide", "timm/vit_huge_patch14_clip_224.metaclip2_worldwide", ""},
    {"ViT-H-14-worldwide-378", "metaclip2_worldwide", "timm/vit_huge_patch14_clip_378.metaclip2_worldwide", ""},
    {"ViT-bigG-14-worldwide", "metaclip2_worldwide", "timm/vit_gigantic_patch14_clip_224.metaclip2_worldwide", ""},
    {"ViT-bigG-14-worldwide-378", "metaclip2_worldwide", "timm/vit_gigantic_patch14_clip_378.metaclip2_worldwide", ""},
    {"RN50-quickgelu", "openai", "timm/resnet50_clip.openai", "RN50.pt"},
    {"RN50-quickgelu", "yfcc15m", "timm/resnet50_clip.yfcc15m", "rn50-quickgelu-yfcc15m-455df137.pt"},
    {"RN50-quickgelu", "cc12m", "timm/resnet50_clip.cc12m", "rn50-quickgelu-cc12m-f000538c.pt"},
    {"RN101-quickgelu", "openai", "timm/resnet101_clip.openai", "RN101.pt"},
    {"RN101-quickgelu", "yfcc15m", "timm/resnet101_clip.yfcc15m", "rn101-quickgelu-yfcc15m-3e04b30e.pt"},
    {"RN50x4-quickgelu", "openai", "timm/resnet50x4_clip.openai", "RN50x4.pt"},
    {"RN50x16-quickgelu", "openai", "timm/resnet50x16_clip.openai", "RN50x16.pt"},
    {"RN50x64-quickgelu", "openai", "timm/resnet50x64_clip.openai", "RN50x64.pt"},
    {"ViT-B-32-quickgelu", "openai", "timm/vit_base_patch32_clip_224.openai", "ViT-B-32.pt"},
    {"ViT-B-32-quickgelu", "laion400m_e31", "timm/vit_base_patch32_clip_224.laion400m_e31",
     "vit_b_32-quickgelu-laion400m_e31-d867053b.pt"},
    {"ViT-B-32-quickgelu", "laion400m_e32", "timm/vit_base_patch32_clip_224.laion400m_e32",
     "vit_b_32-quickgelu-laion400m_e32-46683a32.pt"},
    {"ViT-B-32-quickgelu", "metaclip_400m", "timm/vit_base_patch32_clip_224.metaclip_400m", "b32_400m.pt"},
    {"ViT-B-32-quickgelu", "metaclip_fullcc", "timm/vit_base_patch32_clip_224.metaclip_2pt5b", "b32_fullcc2.5b.pt"},
    {"ViT-B-16-quickgelu", "openai", "timm/vit_base_patch16_clip_224.openai", "ViT-B-16.pt"},
    {"ViT-B-16-quickgelu", "dfn2b", "apple/DFN2B-CLIP-ViT-B-16", ""},
    {"ViT-B-16-quickgelu", "metaclip_400m", "timm/vit_base_patch16_clip_224.metaclip_400m", "b16_400m.pt"},
    {"ViT-B-16-quickgelu", "metaclip_fullcc", "timm/vit_base_patch16_clip_224.metaclip_2pt5b", "b16_fullcc2.5b.pt"},
    {"ViT-L-14-quickgelu", "openai", "timm/vit_large_patch14_clip_224.openai", "ViT-L-14.pt"},
    {"ViT-L-14-quickgelu", "metaclip_400m", "timm/vit_large_patch14_clip_224.metaclip_400m", "l14_400m.pt"},
    {"ViT-L-14-quickgelu", "metaclip_fullcc", "timm/vit_large_patch14_clip_224.metaclip_2pt5b", "l14_fullcc2.5b.pt"},
    {"ViT-L-14-quickgelu", "dfn2b", "apple/DFN2B-CLIP-ViT-L-14", ""},
    {"ViT-L-14-336-quickgelu", "openai", "timm/vit_large_patch14_clip_336.openai", "ViT-L-14-336px.pt"},
    {"ViT-H-14-quickgelu", "metaclip_fullcc", "timm/vit_huge_patch14_clip_224.metaclip_2pt5b", "h14_fullcc2.5b.pt"},
    {"ViT-H-14-quickgelu", "dfn5b", "apple/DFN5B-CLIP-ViT-H-14", ""},
    {"ViT-H-14-378-quickgelu", "dfn5b", "apple/DFN5B-CLIP-ViT-H-14-378", ""},
    {"ViT-bigG-14-quickgelu", "metaclip_fullcc", "timm/vit_gigantic_patch14_clip_224.metaclip_2pt5b",
     "G14_fullcc2.5b.pt"},
    {"ViT-H-14-worldwide-quickgelu", "metaclip2_worldwide", "timm/vit_huge_patch14_clip_224.metaclip2_worldwide", ""},
};

/// Names of a file of weights in a repository: OpenCLIP's, the one it prefers first, and that of ViTamin's.
constexpr std::string_view kHubFiles[] = {"open_clip_model.safetensors", "open_clip_pytorch_model.safetensors",
                                          "open_clip_pytorch_model.bin", "pytorch_model.bin"};

constexpr std::string_view kHubConfig[] = {"open_clip_config.json"};
constexpr std::string_view kLocalDir = "local-dir:";

/// One of `files` of what "hf-hub:ORG/NAME" or "local-dir:DIR" names.
std::optional<fs::path> find_in_named(std::string_view named, std::span<const std::string_view> files) {
  if (!core::starts_with(named, kLocalDir)) return find_in_hub_caches(hub_repository(named), files);
  std::error_code ignored;
  for (const std::string_view file : files)
    if (const fs::path path = fs::path(named.substr(kLocalDir.size())) / file; fs::is_regular_file(path, ignored))
      return path;
  return std::nullopt;
}

[[noreturn]] void throw_not_in_folder(std::string_view flag, std::string_view named,
                                      std::span<const std::string_view> files) {
  throw UsageError(fmt::format("options: {} '{}': the folder has no {}", flag, named, fmt::join(files, ", ")),
                   "name a folder as OpenCLIP's push to the Hub makes it, with its configuration and its weights");
}

/// As OpenCLIP takes a tag: "laion2B-s34B-b79K" is laion2b_s34b_b79k.
const PretrainedRow* find_tag(std::string_view named, std::string_view model) {
  const std::string tag = core::replace_all(core::to_lower_ascii(named), "-", "_");
  for (const PretrainedRow& row : kPretrained)
    if (row.model == model && row.tag == tag) return &row;
  return nullptr;
}

/// Where its weights lie in a local cache.
std::optional<fs::path> find_weights(const PretrainedRow& row) {
  if (const auto file = find_in_hub_caches(row.repository, kHubFiles)) return file;
  return row.file.empty() ? std::nullopt : find_in_openclip_caches(row.file);
}

fs::path from_hub(std::string_view flag, const std::string& named, std::string_view repository) {
  if (const auto file = find_in_hub_caches(repository, kHubFiles)) return *file;
  throw UsageError(fmt::format("options: {} '{}' is not in a local cache: no weights of {} below {}", flag, named,
                               repository, hub_cache_places()),
                   fmt::format("nothing is downloaded: fetch it with `hf download {}`, or give the path of a .pt or "
                               ".safetensors file",
                               repository));
}

[[noreturn]] void throw_unknown_tag(std::string_view flag, const std::string& named, std::string_view model) {
  if (named.find("://") != std::string::npos)
    throw UsageError(fmt::format("options: {} '{}' is an address, expected a local file or folder", flag, named),
                     "fetch it first; --resume alone takes s3://");
  const std::string as_tag = core::replace_all(core::to_lower_ascii(named), "-", "_");
  std::vector<std::string> others;
  for (const PretrainedRow& row : kPretrained)
    if (row.tag == as_tag) others.emplace_back(row.model);
  std::vector<std::string> tags;
  for (const PretrainedRow& row : kPretrained)
    if (row.model == model) tags.emplace_back(row.tag);
  if (!others.empty())
    throw UsageError(fmt::format("options: {} '{}' is a tag of other models, not of '{}'", flag, named, model),
                     tags.empty() ? fmt::format("give --model {}", core::join_or(others))
                                  : fmt::format("give --model {}, or a tag of '{}': {}", core::join_or(others), model,
                                                core::join(tags, ", ")));
  const std::string known = tags.empty() ? fmt::format("OpenCLIP has no weights for model '{}'", model)
                                         : fmt::format("tags of model '{}': {}", model, core::join(tags, ", "));
  throw UsageError(fmt::format("options: {} '{}' does not exist", flag, named),
                   fmt::format("give the path of a .pt or .safetensors file, hf-hub:ORG/NAME, or a tag; {}", known));
}

}  // namespace

fs::path pretrained_file(std::string_view flag, const std::string& named, std::string_view model) {
  std::error_code ignored;
  const PretrainedRow* tag = find_tag(named, model);  // as in OpenCLIP before a file of that name
  if (!tag && fs::exists(named, ignored)) return named;
  if (core::starts_with(named, kLocalDir)) {
    if (const auto file = find_in_named(named, kHubFiles)) return *file;
    throw_not_in_folder(flag, named, kHubFiles);
  }
  if (const std::string_view repository = hub_repository(named); !repository.empty())
    return from_hub(flag, named, repository);
  if (!tag) throw_unknown_tag(flag, named, model);
  if (const auto file = find_weights(*tag)) return *file;
  return from_hub(flag, named, tag->repository);
}

std::string pretrained_list() {
  std::string list = fmt::format("{:<29} {:<34} {}\n", "model", "tag", "in local cache");
  size_t num_rows = 0, num_here = 0;
  for (const PretrainedRow& row : kPretrained) {
    const bool is_here = find_weights(row).has_value();
    list += fmt::format("{:<29} {:<34} {}\n", row.model, row.tag, is_here ? "yes" : "-");
    ++num_rows;
    num_here += is_here ? 1 : 0;
  }
  return list + fmt::format(
                    "\n{} of {} are in a local cache; nothing is downloaded. For others --model and\n"
                    "--pretrained say which repository of the Hugging Face Hub has it.\n",
                    num_here, num_rows);
}

std::string gelu_warning(const std::string& named, std::string_view model, bool has_quick_gelu) {
  constexpr std::string_view kQuick = "-quickgelu";
  const std::string_view plain = core::ends_with(model, kQuick) ? model.substr(0, model.size() - kQuick.size()) : model;
  if (!find_tag(named, model)) return "";
  // OpenCLIP lists a model under a second name for just these weights.
  const bool wants_quick = find_tag(named, std::string(plain) + std::string(kQuick)) != nullptr;
  if (wants_quick == has_quick_gelu) return "";
  return wants_quick
             ? fmt::format(
                   "the weights '{}' were trained with QuickGELU, which model '{}' does not have: use "
                   "--model {}{} or --force-quick-gelu",
                   named, model, plain, kQuick)
             : fmt::format("the weights '{}' were trained without QuickGELU, which model '{}' has here", named, model);
}

namespace {

const std::vector<double> kHalf(3, 0.5), kImagenetMean = {0.485, 0.456, 0.406}, kImagenetStd = {0.229, 0.224, 0.225};

PicturePreparation preparation_of_tag(std::string_view tag, std::string_view model) {
  const bool is_squashed = tag == "dfn5b" || core::ends_with(model, "-worldwide-378");
  if (model.find("SigLIP") != std::string_view::npos || core::ends_with(model, "-siglip"))
    return {.mean = kHalf, .std = kHalf, .interpolation = {}, .resize_mode = "squash"};
  if (core::starts_with(model, "PE-Core"))
    return {.mean = kHalf, .std = kHalf, .interpolation = "bilinear", .resize_mode = "squash"};
  if (model == "MobileCLIP2-S3" || model == "MobileCLIP2-S4")
    return {.mean = {}, .std = {}, .interpolation = "bilinear", .resize_mode = {}};
  if (core::starts_with(model, "MobileCLIP") && !core::ends_with(model, "-L-14"))
    return {.mean = std::vector<double>(3, 0.0),
            .std = std::vector<double>(3, 1.0),
            .interpolation = "bilinear",
            .resize_mode = {}};
  if (model.find("CLIPA") != std::string_view::npos)
    return {.mean = kImagenetMean, .std = kImagenetStd, .interpolation = "bilinear", .resize_mode = "squash"};
  if (model == "ViT-L-14" && tag == "laion2b_s32b_b82k")
    return {.mean = kHalf, .std = kHalf, .interpolation = {}, .resize_mode = {}};
  if (is_squashed) return {.mean = {}, .std = {}, .interpolation = {}, .resize_mode = "squash"};
  return {};
}

/// `fill_color` of a preprocess_cfg: none where it is absent or null.
std::optional<int64_t> read_fill_color(const core::Json& given, const fs::path& path) {
  const core::Json value = given.value("fill_color", core::Json());
  if (value.is_null()) return std::nullopt;
  const auto number = core::integer_of(value);
  if (!value.is_number_integer() || !number || *number < 0 || *number > 255)
    throw UsageError(fmt::format("options: '{}': 'preprocess_cfg.fill_color' is {}, expected an integer from 0 to 255",
                                 path.string(), value.dump()),
                     "drop it from the file and give --image-fill-color");
  return number;
}

PicturePreparation preparation_of_config(const HubConfig& config) {
  const core::Json given = config.json.value("preprocess_cfg", core::Json::object());
  PicturePreparation preparation;
  try {
    preparation.mean = given.value("mean", std::vector<double>());
    preparation.std = given.value("std", std::vector<double>());
    if (given.contains("interpolation")) preparation.interpolation = given.at("interpolation").get<std::string>();
    if (given.contains("resize_mode")) preparation.resize_mode = given.at("resize_mode").get<std::string>();
  } catch (const core::Json::exception& error) {
    throw UsageError(
        fmt::format("options: '{}': 'preprocess_cfg' cannot be read: {}", config.path.string(), error.what()),
        "mend the file, or drop 'preprocess_cfg' from it and give --image-mean and the flags beside it");
  }
  preparation.fill_color = read_fill_color(given, config.path);
  const auto require_known = [&](const std::optional<std::string>& value,
                                 std::initializer_list<std::string_view> known) {
    if (value && std::find(known.begin(), known.end(), *value) == known.end())
      throw UsageError(fmt::format("options: '{}': 'preprocess_cfg' has '{}', expected {}", config.path.string(),
                                   *value, fmt::join(known, " or ")),
                       "drop it from the file and give --image-interpolation or --image-resize-mode");
  };
  require_known(preparation.interpolation, {"bicubic", "bilinear"});
  require_known(preparation.resize_mode, {"shortest", "longest", "squash"});
  return preparation;
}

}  // namespace

PicturePreparation preparation_of_weights(const std::string& named, std::string_view model) {
  if (const PretrainedRow* tag = find_tag(named, model)) return preparation_of_tag(tag->tag, tag->model);
  std::error_code ignored;
  if (fs::exists(named, ignored)) return {};
  if (is_hub_model(named))
    return find_in_named(named, kHubConfig) ? preparation_of_config(read_hub_config(named)) : PicturePreparation{};
  return {};
}

bool tells_preparation(const std::string& named, std::string_view model) {
  if (find_tag(named, model) != nullptr) return true;
  std::error_code ignored;
  return !fs::exists(named, ignored) && is_hub_model(named) && find_in_named(named, kHubConfig);
}

bool is_hub_model(std::string_view model) {
  return core::starts_with(model, kLocalDir) || !hub_repository(model).empty();
}

HubConfig read_hub_config(std::string_view model) {
  const auto file = find_in_named(model, kHubConfig);
  if (!file && core::starts_with(model, kLocalDir)) throw_not_in_folder("--model", model, kHubConfig);
  if (!file)
    throw UsageError(fmt::format("options: --model '{}' is not in a local cache: no {} of {} below {}", model,
                                 kHubConfig[0], hub_repository(model), hub_cache_places()),
                     fmt::format("nothing is downloaded: fetch it with `hf download {}`, or give its shape with "
                                 "--model NAME and its weights with --pretrained FILE",
                                 hub_repository(model)));
  HubConfig config{.path = *file, .json = core::parse_json(core::read_file(*file), file->string())};
  if (!config.json.is_object() || !config.json.contains("model_cfg"))
    throw UsageError(fmt::format("options: '{}' has no 'model_cfg'", file->string()),
                     "it is no configuration that OpenCLIP has pushed to the Hub");
  return config;
}

}  // namespace lockstep::config
