package allowance

import (
	"maps"
	"slices"
	"strings"
)

// The ways on which a value leaves the controller.
const (
	toNodes      = "goes into the user data of every node"
	toAWS        = "goes into names of hosts and requests to AWS"
	toLogs       = "goes into the controller's log where it is not valid"
	toPrometheus = "goes to Prometheus"
	compared     = "is compared with other values by the API server, whose answers everyone who can push reads"
)

// leaving are the open values whose content can be read outside of the controller and of its
// objects: by who is root on a node, or reads its log or metrics. A committer chooses
// which labelled Secret goes where.
var leaving = map[string]string{
	"settings.clusterName":                       toNodes,
	"settings.clusterEndpoint":                   toNodes,
	"settings.clusterCABundle":                   toNodes,
	"settings.reservedENIs":                      toNodes,
	"settings.vmMemoryOverheadPercent":           toNodes,
	"settings.interruptionQueue":                 toAWS,
	"settings.preferencePolicy":                  toLogs,
	"settings.minValuesPolicy":                   toLogs,
	"controller.env[CLUSTER_NAME]":               toNodes,
	"controller.env[CLUSTER_ENDPOINT]":           toNodes,
	"controller.env[CLUSTER_CA_BUNDLE]":          toNodes,
	"controller.env[RESERVED_ENIS]":              toNodes,
	"controller.env[VM_MEMORY_OVERHEAD_PERCENT]": toNodes,
	"controller.env[INTERRUPTION_QUEUE]":         toAWS,
	"controller.env[AWS_REGION]":                 toAWS,
	"controller.env[AWS_DEFAULT_REGION]":         toAWS,
	"controller.env[AWS_STS_REGIONAL_ENDPOINTS]": toAWS,
	"controller.env[AWS_RETRY_MODE]":             toLogs,
	"controller.env[FEATURE_GATES]":              toLogs,
	"controller.env[GOGC]":                       toLogs,
	"controller.env[GOMEMLIMIT]":                 toLogs,
	"controller.env[PREFERENCE_POLICY]":          toLogs,
	"controller.env[MIN_VALUES_POLICY]":          toLogs,
	"service.annotations[prometheus.io/*]":       toPrometheus,
	"podAnnotations[prometheus.io/*]":            toPrometheus,
	"serviceMonitor.metricRelabelings":           toPrometheus,
	"topologySpreadConstraints":                  compared,
	"strategy":                                   compared,
	"controller.metrics.port":                    compared,
	"controller.healthProbe.port":                compared,
	"webhook.port":                               compared,
	"webhook.metrics.port":                       compared,

	"controller.resources.limits.cpu":                 compared,
	"controller.resources.limits.memory":              compared,
	"controller.resources.limits.ephemeral-storage":   compared,
	"controller.resources.requests.cpu":               compared,
	"controller.resources.requests.memory":            compared,
	"controller.resources.requests.ephemeral-storage": compared,
}

// CheckSecret says which values out of a Secret leave the controller, so that a commit may
// not have them set from there. They are those of the Secret by itself, whatever is put over
// them.
func (a Allowance) CheckSecret(values map[string]any) []Refusal {
	s := &secrets{allowance: a}
	s.look("", values)
	return s.found
}

type secrets struct {
	allowance Allowance
	found     []Refusal
}

func (s *secrets) look(at string, value any) {
	if value == nil || at != "" && s.allowance.allows(at) {
		return
	}
	if why, leaves := leavesBy(at); leaves {
		s.refuse(at, why)
		return
	}
	switch value := value.(type) {
	case map[string]any:
		for _, key := range slices.Sorted(maps.Keys(value)) {
			s.look(join(at, key), value[key])
		}
	case []any:
		if at == environment {
			s.variables(value)
		}
	}
}

// variables looks at controller.env. A value without its name belongs to a variable that
// another source of values names.
func (s *secrets) variables(list []any) {
	for _, one := range list {
		variable, _ := one.(map[string]any)
		name, _ := variable["name"].(string)
		switch {
		case len(variable) == 0:
		case name == "":
			s.refuse(environment, "names no variable, and may be that of one that leaves the controller")
			return
		default:
			s.look(variableAt(name), variable["value"])
		}
	}
}

func leavesBy(at string) (why string, leaves bool) {
	if why, leaves = leaving[at]; leaves {
		return why, true
	}
	domain, _, _ := strings.Cut(at, "/")
	why, leaves = leaving[domain+"/*]"]
	return why, leaves
}

func (s *secrets) refuse(at, why string) {
	s.found = append(s.found, Refusal{What: "valuesFrom a Secret for values." + at, Why: why, Field: fieldValues, Entry: at})
}
