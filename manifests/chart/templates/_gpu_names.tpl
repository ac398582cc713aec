{{/* Written by manifests/generate.py from the table in policy/vendors.py: change that. */}}

{{/* Whether the variable `name` is a built-in name of a GPU resource. */}}
{{- define "gpu-tenure.cel.isBuiltInGPUName" -}}
!(name.endsWith("monitoring")) && (
name in ["nvidia.com/gpu", "nvidia.com/gpu.shared", "nvidia.com/gpumem", "nvidia.com/gpumem-percentage", "nvidia.com/gpucores", "alpha.kubernetes.io/nvidia-gpu", "amd.com/gpu", "gpu.intel.com/i915", "gpu.intel.com/xe", "habana.ai/gaudi", "aws.amazon.com/neuron", "aws.amazon.com/neurondevice", "aws.amazon.com/neuroncore", "google.com/tpu", "cambricon.com/vmlu", "hygon.com/dcunum", "hygon.com/dcumem", "hygon.com/dcucores", "hygon.com/dcu", "metax-tech.com/gpu", "metax-tech.com/sgpu", "metax-tech.com/vmemory", "metax-tech.com/vcore", "enflame.com/gcu", "mthreads.com/vgpu", "mthreads.com/sgpu-memory", "mthreads.com/sgpu-core", "mthreads.com/gpu", "iluvatar.ai/gpu", "iluvatar.ai/vgpu", "iluvatar.ai/vcuda-memory", "iluvatar.ai/vcuda-core", "koordinator.sh/gpu-memory-ratio", "koordinator.sh/gpu", "koordinator.sh/gpu-core", "volcano.sh/vgpu-number", "volcano.sh/vgpu-memory", "volcano.sh/vgpu-cores", "volcano.sh/vgpu-memory-percentage", "gpu.nvidia.com.deviceclass.resource.k8s.io/devices", "deviceclass.resource.kubernetes.io/gpu.nvidia.com", "vfio.gpu.nvidia.com.deviceclass.resource.k8s.io/devices", "deviceclass.resource.kubernetes.io/vfio.gpu.nvidia.com", "mig.nvidia.com.deviceclass.resource.k8s.io/devices", "deviceclass.resource.kubernetes.io/mig.nvidia.com", "gpu.amd.com.deviceclass.resource.k8s.io/devices", "deviceclass.resource.kubernetes.io/gpu.amd.com", "gpu.intel.com.deviceclass.resource.k8s.io/devices", "deviceclass.resource.kubernetes.io/gpu.intel.com", "gaudi.intel.com.deviceclass.resource.k8s.io/devices", "deviceclass.resource.kubernetes.io/gaudi.intel.com", "tpu.google.com.deviceclass.resource.k8s.io/devices", "deviceclass.resource.kubernetes.io/tpu.google.com", "neuron.aws.com.deviceclass.resource.k8s.io/devices", "deviceclass.resource.kubernetes.io/neuron.aws.com", "kai.scheduler/gpu-fraction", "kai.scheduler/gpu-memory"] ||
name.startsWith("nvidia.com/mig-") && name.matches(r'^(?s:nvidia\.com/mig-[a-z0-9.+-]+)$') ||
name.startsWith("amd.com/") && name.matches(r'^(?s:amd\.com/[sdtqc]px_nps[1248])$') ||
name.startsWith("huawei.com/Ascend") && name.matches(r'^(?s:(huawei\.com/Ascend[A-Za-z0-9]+)-memory)$') ||
name.startsWith("huawei.com/Ascend") && name.matches(r'^(?s:(huawei\.com/Ascend[A-Za-z0-9]+)-core)$') ||
name.startsWith("huawei.com/Ascend") && name.matches(r'^(?s:huawei\.com/Ascend[A-Za-z0-9]+-[0-9]+c[a-z0-9._]*)$') ||
name.startsWith("huawei.com/Ascend") && name.matches(r'^(?s:huawei\.com/Ascend[A-Za-z0-9]+)$') ||
name.startsWith("cambricon.com/") && name.matches(r'^(?s:cambricon\.com/[A-Za-z0-9._-]*(vmemory|mlumem))$') ||
name.startsWith("cambricon.com/") && name.matches(r'^(?s:cambricon\.com/[A-Za-z0-9._-]*vcore)$') ||
name.startsWith("cambricon.com/") && name.matches(r'^(?s:cambricon\.com/[A-Za-z0-9._-]+\.share)$') ||
name.startsWith("cambricon.com/") && name.matches(r'^(?s:cambricon\.com/[A-Za-z0-9._-]+\.mim-[a-z0-9._-]+)$') ||
name.startsWith("cambricon.com/") && name.matches(r'^(?s:cambricon\.com/[A-Za-z0-9._-]+)$'))
{{- end }}

{{/* Annotations that ask for a part of a card, as a JSON list. */}}
{{- define "gpu-tenure.gpuAnnotations" -}}
["gpu-fraction", "gpu-memory"]
{{- end }}
