{{/* Written by manifests/generate.py from the table in policy/workloads.py: change that. */}}

{{/* What carries annotations that pods inherit, as its metadata. Argument: the object. */}}
{{- define "gpu-tenure.cel.inherited" -}}
(request.resource.group + "/" + request.resource.resource) in ["batch/jobs", "apps/deployments", "apps/replicasets", "apps/statefulsets", "apps/daemonsets", "/replicationcontrollers"] ? [dyn(dyn({{ . }}).?spec.?template.orValue({}))] :
(request.resource.group + "/" + request.resource.resource) in ["batch/cronjobs"] ? [dyn(dyn({{ . }}).?spec.?jobTemplate.?spec.?template.orValue({}))] :
(request.resource.group + "/" + request.resource.resource) in ["jobset.x-k8s.io/jobsets"] ? dyn({{ . }}).?spec.?replicatedJobs.orValue([]).map(item, dyn(item.?template.?spec.?template.orValue({}))) :
(request.resource.group + "/" + request.resource.resource) in ["leaderworkerset.x-k8s.io/leaderworkersets"] ? [dyn(dyn({{ . }}).?spec.?leaderWorkerTemplate.?leaderTemplate.orValue({}))] + [dyn(dyn({{ . }}).?spec.?leaderWorkerTemplate.?workerTemplate.orValue({}))] :
(request.resource.group + "/" + request.resource.resource) in ["batch.volcano.sh/jobs"] ? dyn({{ . }}).?spec.?tasks.orValue([]).map(item, dyn(item.?template.orValue({}))) :
(request.resource.group + "/" + request.resource.resource) in ["ray.io/rayclusters"] ? [dyn(dyn({{ . }}).?spec.?headGroupSpec.?template.orValue({}))] + dyn({{ . }}).?spec.?workerGroupSpecs.orValue([]).map(item, dyn(item.?template.orValue({}))) :
(request.resource.group + "/" + request.resource.resource) in ["ray.io/rayjobs"] ? [dyn(dyn({{ . }}).?spec.?rayClusterSpec.?headGroupSpec.?template.orValue({}))] + dyn({{ . }}).?spec.?rayClusterSpec.?workerGroupSpecs.orValue([]).map(item, dyn(item.?template.orValue({}))) + [dyn(dyn({{ . }}).?spec.?submitterPodTemplate.orValue({}))] :
(request.resource.group + "/" + request.resource.resource) in ["ray.io/rayservices"] ? [dyn(dyn({{ . }}).?spec.?rayClusterConfig.?headGroupSpec.?template.orValue({}))] + dyn({{ . }}).?spec.?rayClusterConfig.?workerGroupSpecs.orValue([]).map(item, dyn(item.?template.orValue({}))) :
(request.resource.group + "/" + request.resource.resource) in ["kubeflow.org/jaxjobs"] ? dyn({{ . }}).?spec.?jaxReplicaSpecs.orValue({}).map(item, dyn(dyn({{ . }}).?spec.?jaxReplicaSpecs[?item].?template.orValue({}))) :
(request.resource.group + "/" + request.resource.resource) in ["kubeflow.org/mpijobs"] ? dyn({{ . }}).?spec.?mpiReplicaSpecs.orValue({}).map(item, dyn(dyn({{ . }}).?spec.?mpiReplicaSpecs[?item].?template.orValue({}))) :
(request.resource.group + "/" + request.resource.resource) in ["kubeflow.org/mxjobs"] ? dyn({{ . }}).?spec.?mxReplicaSpecs.orValue({}).map(item, dyn(dyn({{ . }}).?spec.?mxReplicaSpecs[?item].?template.orValue({}))) :
(request.resource.group + "/" + request.resource.resource) in ["kubeflow.org/paddlejobs"] ? dyn({{ . }}).?spec.?paddleReplicaSpecs.orValue({}).map(item, dyn(dyn({{ . }}).?spec.?paddleReplicaSpecs[?item].?template.orValue({}))) :
(request.resource.group + "/" + request.resource.resource) in ["kubeflow.org/pytorchjobs"] ? dyn({{ . }}).?spec.?pytorchReplicaSpecs.orValue({}).map(item, dyn(dyn({{ . }}).?spec.?pytorchReplicaSpecs[?item].?template.orValue({}))) :
(request.resource.group + "/" + request.resource.resource) in ["kubeflow.org/tfjobs"] ? dyn({{ . }}).?spec.?tfReplicaSpecs.orValue({}).map(item, dyn(dyn({{ . }}).?spec.?tfReplicaSpecs[?item].?template.orValue({}))) :
(request.resource.group + "/" + request.resource.resource) in ["kubeflow.org/xgboostjobs"] ? dyn({{ . }}).?spec.?xgbReplicaSpecs.orValue({}).map(item, dyn(dyn({{ . }}).?spec.?xgbReplicaSpecs[?item].?template.orValue({}))) :
(request.resource.group + "/" + request.resource.resource) in ["kubeflow.org/notebooks"] ? [dyn({{ . }})] :
(request.resource.group + "/" + request.resource.resource) in ["argoproj.io/workflows"] ? [dyn({"metadata": dyn({{ . }}).?spec.?podMetadata.orValue({})})] + dyn({{ . }}).?spec.?templates.orValue([]).map(item, dyn(item)) + [dyn(dyn({{ . }}).?spec.?templateDefaults.orValue({}))] :
(request.resource.group + "/" + request.resource.resource) in ["argoproj.io/cronworkflows"] ? [dyn({"metadata": dyn({{ . }}).?spec.?workflowSpec.?podMetadata.orValue({})})] + dyn({{ . }}).?spec.?workflowSpec.?templates.orValue([]).map(item, dyn(item)) + [dyn(dyn({{ . }}).?spec.?workflowSpec.?templateDefaults.orValue({}))] :
[dyn({{ . }})]
{{- end }}
