package allowance

// open are the values that any commit may set, with their shapes.
var open = map[string]shape{
	"imagePullPolicy":                                 oneOf("Always", "IfNotPresent"),
	"service.annotations[prometheus.io/*]":            note,
	"serviceMonitor.enabled":                          flag,
	"serviceMonitor.additionalLabels":                 labels,
	"serviceMonitor.metricRelabelings":                tree,
	"serviceMonitor.endpointConfig.interval":          duration,
	"serviceMonitor.sampleLimit":                      whole,
	"replicas":                                        few,
	"revisionHistoryLimit":                            whole,
	"strategy":                                        tree,
	"podAnnotations[prometheus.io/*]":                 note,
	"podAnnotations[checksum/*]":                      note,
	"podAnnotations[karpenter.sh/*]":                  note,
	"podDisruptionBudget.maxUnavailable":              share,
	"priorityClassName":                               word,
	"terminationGracePeriodSeconds":                   whole,
	"schedulerName":                                   word,
	"dnsPolicy":                                       oneOf("ClusterFirst", "ClusterFirstWithHostNet", "Default"),
	"dnsConfig.options":                               tree,
	"nodeSelector":                                    tree,
	"affinity.podAffinity":                            tree,
	"affinity.podAntiAffinity":                        tree,
	"topologySpreadConstraints":                       tree,
	"tolerations":                                     tree,
	"controller.containerName":                        word,
	"controller.metrics.port":                         whole,
	"controller.healthProbe.port":                     whole,
	"controller.resources.limits.cpu":                 amount,
	"controller.resources.limits.memory":              amount,
	"controller.resources.requests.cpu":               amount,
	"controller.resources.requests.memory":            amount,
	"controller.resources.limits.ephemeral-storage":   amount,
	"controller.resources.requests.ephemeral-storage": amount,
	"webhook.enabled":                                 flag,
	"webhook.port":                                    whole,
	"webhook.metrics.port":                            whole,
	"logLevel":                                        oneOf("debug", "info", "error"),
	"logOutputPaths":                                  outputs,
	"logErrorOutputPaths":                             outputs,

	"settings.batchMaxDuration":                 duration,
	"settings.batchIdleDuration":                duration,
	"settings.preferencePolicy":                 word,
	"settings.minValuesPolicy":                  word,
	"settings.clusterName":                      word,
	"settings.clusterEndpoint":                  endpoint,
	"settings.isolatedVPC":                      flag,
	"settings.eksControlPlane":                  flag,
	"settings.vmMemoryOverheadPercent":          number,
	"settings.interruptionQueue":                word,
	"settings.enableZonalShift":                 flag,
	"settings.reservedENIs":                     whole,
	"settings.enableDRA":                        flag,
	"settings.ignoreDRARequests":                flag,
	"settings.legacyNodeRepair":                 flag,
	"settings.disableClusterStateObservability": flag,
	"settings.disableDryRun":                    flag,
	"settings.amiRefreshInterval":               duration,
	"settings.subnetRefreshInterval":            duration,
	"settings.securityGroupRefreshInterval":     duration,

	"settings.featureGates.nodeOverlay":        flag,
	"settings.featureGates.reservedCapacity":   flag,
	"settings.featureGates.staticCapacity":     flag,
	"settings.featureGates.capacityBuffer":     flag,
	"settings.awsFeatureGates.nodeClassCEL":    flag,
	"settings.awsFeatureGates.draNVIDIAGPU":    flag,
	"settings.awsFeatureGates.draEFA":          flag,
	"settings.awsFeatureGates.rebootForRepair": flag,

	// The variables of the controller: from core's and the provider's options.go, and those of Go's runtime and the AWS
	// SDK that name no other host and no identity.
	"controller.env[AWS_REGION]":                          word,
	"controller.env[AWS_DEFAULT_REGION]":                  word,
	"controller.env[AWS_STS_REGIONAL_ENDPOINTS]":          word,
	"controller.env[AWS_MAX_ATTEMPTS]":                    whole,
	"controller.env[AWS_RETRY_MODE]":                      word,
	"controller.env[AWS_USE_DUALSTACK_ENDPOINT]":          flag,
	"controller.env[AWS_USE_FIPS_ENDPOINT]":               flag,
	"controller.env[GOGC]":                                word,
	"controller.env[GOMAXPROCS]":                          whole,
	"controller.env[GOMEMLIMIT]":                          word,
	"controller.env[AMI_REFRESH_INTERVAL]":                duration,
	"controller.env[AWS_FEATURE_GATES]":                   gates,
	"controller.env[BATCH_IDLE_DURATION]":                 duration,
	"controller.env[BATCH_MAX_DURATION]":                  duration,
	"controller.env[CLUSTER_ENDPOINT]":                    endpoint,
	"controller.env[CLUSTER_NAME]":                        word,
	"controller.env[CPU_REQUESTS]":                        whole,
	"controller.env[DISABLE_CLUSTER_STATE_OBSERVABILITY]": flag,
	"controller.env[DISABLE_CONTROLLER_WARMUP]":           flag,
	"controller.env[DISABLE_DRY_RUN]":                     flag,
	"controller.env[EKS_CONTROL_PLANE]":                   flag,
	"controller.env[ENABLE_ZONAL_SHIFT]":                  flag,
	"controller.env[FEATURE_GATES]":                       gates,
	"controller.env[IGNORE_DRA_REQUESTS]":                 flag,
	"controller.env[INTERRUPTION_QUEUE]":                  word,
	"controller.env[ISOLATED_VPC]":                        flag,
	"controller.env[KUBE_CLIENT_BURST]":                   whole,
	"controller.env[KUBE_CLIENT_QPS]":                     whole,
	"controller.env[LEGACY_NODE_REPAIR]":                  flag,
	"controller.env[LOG_ERROR_OUTPUT_PATHS]":              output,
	"controller.env[LOG_LEVEL]":                           oneOf("debug", "info", "error"),
	"controller.env[LOG_OUTPUT_PATHS]":                    output,
	"controller.env[MEMORY_LIMIT]":                        whole,
	"controller.env[MIN_VALUES_POLICY]":                   word,
	"controller.env[PREFERENCE_POLICY]":                   word,
	"controller.env[RESERVED_ENIS]":                       whole,
	"controller.env[SECURITY_GROUP_REFRESH_INTERVAL]":     duration,
	"controller.env[SUBNET_REFRESH_INTERVAL]":             duration,
	"controller.env[VM_MEMORY_OVERHEAD_PERCENT]":          number,
}

// limit is a value that no commit may set unless the NodeSync allows it.
type limit struct {
	why string
	// harmless are the values that are allowed anyway, because the chart behaves the same without them.
	harmless []any
	// own reports whether the cluster's own CA bundle is allowed, too: the controller uses it by default.
	own bool
	// never reports whether no NodeSync can allow it.
	never bool
}

// Reasons that several values share.
const (
	whyRenames    = "renames the release's objects, and plumbline has rights over Karpenter's own names only"
	whyIdentity   = "changes the identity that the controller runs under"
	whyImage      = "changes the program that runs with Karpenter's rights"
	whySecurity   = "changes the security context of the controller"
	whyVolumes    = "gives the controller files of the node or of other objects"
	whyOthers     = "runs other containers with Karpenter's rights"
	whyRights     = "gives the controller rights that are not in Karpenter's chart"
	whyAggregates = "goes onto Karpenter's ClusterRoles too, where a label gives their rules to other roles"
	whyVariables  = "can send the controller's credentials to another host, or change its identity"
	whyMarks      = "makes other programs in the cluster act on the object"
	whyReplaces   = "is in Karpenter's hash of each EC2NodeClass, so that another one replaces every node, which no plan and no guard weighs"
	whyTerminates = "makes Karpenter terminate nodes that it keeps without it, or terminate them before they are replaced, which no plan and no guard weighs"
	whyPatches    = "makes the chart grant the controller to patch every pod, which additionalClusterRoleRules has to allow, too"
	whyScrape     = "changes where Prometheus sends its requests, and its token with them"
)

// Values that change nothing.
var (
	// unset is a name as the chart makes it by default.
	unset = []any{nil, "", "karpenter"}
	// emptyByDefault is for what is empty by default. An empty map keeps the defaults below it, and null would remove
	// them.
	emptyByDefault = []any{nil, map[string]any{}, []any{}}
	emptyMap       = []any{map[string]any{}}
	// offKarpenterNodes is the default of every released chart: values.yaml, affinity.nodeAffinity.
	offKarpenterNodes = map[string]any{"requiredDuringSchedulingIgnoredDuringExecution": map[string]any{"nodeSelectorTerms": []any{
		map[string]any{"matchExpressions": []any{map[string]any{"key": "karpenter.sh/nodepool", "operator": "DoesNotExist"}}},
	}}}
	blank = []any{nil, ""}
	// gateOff is the default of a feature gate.
	gateOff = []any{nil, false, "false"}
)

// closed are the values that a commit must not set.
var closed = map[string]limit{
	"nameOverride":                                  {why: whyRenames, harmless: unset, never: true},
	"fullnameOverride":                              {why: whyRenames, harmless: unset, never: true},
	"podDisruptionBudget.name":                      {why: whyRenames, harmless: []any{"karpenter"}, never: true},
	"serviceAccount.name":                           {why: whyIdentity, harmless: unset, never: true},
	"serviceAccount.create":                         {why: whyIdentity, harmless: []any{true}},
	"serviceAccount.annotations":                    {why: whyIdentity, harmless: emptyByDefault},
	"additionalLabels":                              {why: whyAggregates, harmless: emptyByDefault},
	"additionalAnnotations":                         {why: whyIdentity, harmless: emptyByDefault},
	"additionalClusterRoleRules":                    {why: whyRights, harmless: emptyByDefault},
	"imagePullSecrets":                              {why: "uses credentials of the namespace", harmless: emptyByDefault},
	"service.annotations":                           {why: whyMarks, harmless: emptyByDefault},
	"serviceMonitor.relabelings":                    {why: whyScrape, harmless: emptyByDefault},
	"serviceMonitor.endpointConfig":                 {why: whyScrape, harmless: emptyByDefault},
	"podLabels":                                     {why: whyMarks, harmless: emptyByDefault},
	"podAnnotations":                                {why: whyMarks, harmless: emptyByDefault},
	"podSecurityContext":                            {why: whySecurity, harmless: emptyMap},
	"hostNetwork":                                   {why: "puts the controller into the node's network", harmless: []any{nil, false}},
	"dnsConfig":                                     {why: "changes where the controller finds its hosts", harmless: emptyByDefault},
	"affinity.nodeAffinity":                         {why: "can put the controller on a node that a commit's userData is root on", harmless: []any{map[string]any{}, offKarpenterNodes}},
	"initContainers":                                {why: whyOthers, harmless: emptyByDefault},
	"extraVolumes":                                  {why: whyVolumes, harmless: emptyByDefault},
	"controller.image.repository":                   {why: whyImage, harmless: []any{publicImage}},
	"controller.image.tag":                          {why: whyImage},
	"controller.image.digest":                       {why: whyImage},
	"controller.env":                                {why: whyVariables, harmless: emptyByDefault},
	"controller.envFrom":                            {why: "gives the controller Secrets of the namespace", harmless: emptyByDefault},
	"controller.securityContext":                    {why: whySecurity, harmless: emptyByDefault},
	"controller.securityContext.appArmorProfile":    {why: whySecurity, harmless: emptyByDefault},
	"controller.securityContext.seLinuxOptions":     {why: whySecurity, harmless: emptyByDefault},
	"controller.securityContext.seccompProfile":     {why: whySecurity, harmless: emptyByDefault},
	"controller.resources":                          {why: "can give the controller devices of the node", harmless: emptyByDefault},
	"controller.extraVolumeMounts":                  {why: whyVolumes, harmless: emptyByDefault},
	"controller.sidecarContainer":                   {why: whyOthers, harmless: emptyByDefault},
	"controller.sidecarVolumeMounts":                {why: whyVolumes, harmless: emptyByDefault},
	"settings.clusterCABundle":                      {why: whyReplaces, harmless: blank, own: true},
	"controller.env[CLUSTER_CA_BUNDLE]":             {why: whyReplaces, harmless: blank, own: true},
	"settings.featureGates.nodeRepair":              {why: whyTerminates, harmless: gateOff},
	"settings.featureGates.spotToSpotConsolidation": {why: whyTerminates, harmless: gateOff},
	"settings.featureGates.terminateFirstDrift":     {why: whyTerminates, harmless: gateOff},
	"settings.featureGates.terminateFirstRepair":    {why: whyTerminates, harmless: gateOff},

	"settings.featureGates.podDeletionCostManagement": {why: whyPatches, harmless: gateOff},
}

// loosening is a word of an open value with which Karpenter consolidates nodes that it would otherwise keep, and the
// setting that the NodeSync must allow if a chart in Git has it.
type loosening struct{ word, setting string }

var loosens = map[string]loosening{
	"settings.preferencePolicy":         {"Ignore", "settings.preferencePolicy"},
	"controller.env[PREFERENCE_POLICY]": {"Ignore", "settings.preferencePolicy"},
	"settings.minValuesPolicy":          {"BestEffort", "settings.minValuesPolicy"},
	"controller.env[MIN_VALUES_POLICY]": {"BestEffort", "settings.minValuesPolicy"},
}

// publicImage is the repository of Karpenter's image.
const publicImage = "public.ecr.aws/karpenter/controller"
