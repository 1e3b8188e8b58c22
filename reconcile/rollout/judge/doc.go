// Package judge decides whether the workloads on the nodes of a wave are good: whether the rollout may replace more
// nodes, must stop, or has to wait.
//
// Observe reads; Judge is pure: the same Observation and time result in the same Verdict. Observe reads past the watch
// cache the Nodes of the wave with their NodeClaims and pods, and a few old Nodes. Only for workloads with pods that
// fail there, it reads pods of the same workload on old nodes, and when its pod template was created. It never lists or
// watches all pods, and reads no Events: Kubernetes reports the same in the status of the pods.
//
// # What is compared
//
// A workload is the pods of one controller with one pod template: the label pod-template-hash or
// controller-revision-hash. Its pods on new and old nodes are read in the same look, and only what has happened since the
// wave began counts. A workload fails because of the wave if more than a tenth of its pods on the wave's nodes fail, and
// their share is more than twice as large as on the old nodes. The tenth keeps one crash among many pods from stopping a
// large rollout. The nodes themselves are compared in the same way: their conditions, and the resources of device
// plugins.
//
// These pods do not count as failing:
//   - those that failed before the wave began: a pod that is older and has not been Ready since, or of a Deployment
//     that has not been Available since;
//   - those of a pod template that was created since, if no pod of it runs on an old node: the deployment may be wrong. A pod
//     without a controller is its own template;
//   - the only pods of a custom controller, because nothing shows when their template was created. They make the wave at best
//     Inconclusive. If the kubelet refuses such a pod, or one without a controller, it counts;
//   - those of a task (a restartPolicy other than Always), if there is none on an old node: the task may be wrong. If the
//     kubelet refuses such a pod, it counts;
//   - those that an eviction, a preemption or the shutdown of a node has stopped.
//
// A failed pod on an old node that its controller has replaced is compared only with such pods on new nodes: an evicted
// one, and any whose containers are always restarted.
//
// Once no old node of the pool is left, pods are compared with those on nodes of other pools or, if there are none, with
// the share that failed on old nodes in earlier verdicts or before the nodes were replaced (Wave.Excused). If there is nothing to compare with, a workload is
// judged by itself, for example one with a single pod. A StatefulSet with one pod that failed before the wave counts,
// because Kubernetes does not record since when it fails.
//
// # Result
//
// Bad takes precedence over Undecided, and that over Inconclusive. A wave is Good only if a pod that does not belong to a
// DaemonSet works on one of its nodes: pods of DaemonSets can make a wave Bad, but they do not show that workloads work.
// Static pods are ignored.
//
// A pod has five minutes to start, plus the time of its startup and readiness probes; as long as
// progressDeadlineSeconds of its Deployment if that is longer than Kubernetes' default; at most 30 minutes. A pod that
// is created over ten minutes after the last node makes a wave Bad if it fails, but the wave does not wait for it:
// otherwise a wave with many short Jobs would never end.
//
// # Limits
//
// At most 200 workloads and 3,000 of their pods on old nodes are compared in one look, those with the most failing pods
// first. A workload that fails and was not compared is named in the message, and the wave is at best Inconclusive. If a
// node of the wave does not exist (any more), the message says so.
//
// # Cost
//
// The requests of a look depend on the wave's nodes, not on those of the cluster: three for each node of the wave, one
// for each of 16 old nodes, and three or more for each workload that fails. BenchmarkLook measures 64 nodes with 30 pods
// each, among 5,000 nodes. A look takes 0.2 s, the server of the benchmark included; the API server sends 14 MB if all is
// well, and 27 MB if twenty workloads fail. An Observation keeps less than 2 MB, and one page of pods is decoded at a
// time. Verdict.Again is at least 15 s away, and more for more than 64 nodes, so that looks need less than 2% of a core.
package judge
