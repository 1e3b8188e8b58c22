package karpenter

import (
	"fmt"
	"strings"

	"github.com/Masterminds/semver/v3"
)

// Setting is a value of the main chart, or an environment variable of its
// controller, that a version no longer has.
type Setting struct {
	// Path of the value; controller.env[NAME] for an environment variable.
	Path string `json:"path"`
	// Since is the first version without it.
	Since string `json:"since"`
	// Now is the path that took its place; empty where there is none.
	Now string `json:"now,omitempty"`
	// Why says what became of one that nothing took the place of.
	Why string `json:"why,omitempty"`
}

// String says what to do about it.
func (s Setting) String() string {
	if s.Now != "" {
		return fmt.Sprintf("%s is %s since %s", s.Path, s.Now, s.Since)
	}
	return fmt.Sprintf("%s is gone since %s: %s", s.Path, s.Since, s.Why)
}

const (
	zapGone      = "the zap logging configuration was removed"
	roleGone     = "an assumed role is the service account's to have"
	webhooksGone = "the controller has no webhooks any more"
)

// settings are the values and variables that are gone, by version: charts/karpenter/
// values.yaml and pkg/operator/options/options.go of KPA's tags, the latter of KC's
// too; for what took their place website/content/en/v1.0/upgrading/
// v1beta1-migration.md (Helm Values, Global Settings) and v1-migration.md
// (Changelog) at 1.14.1. 0.32 takes the names of 0.31 as well.
var settings = []Setting{
	{Path: "controller.outputPaths", Since: "0.33.0", Now: "logConfig.outputPaths"},
	{Path: "controller.errorOutputPaths", Since: "0.33.0", Now: "logConfig.errorOutputPaths"},
	{Path: "controller.logLevel", Since: "0.33.0", Now: "logConfig.logLevel.controller"},
	{Path: "controller.logEncoding", Since: "0.33.0", Now: "logConfig.logEncoding"},
	{Path: "webhook.logLevel", Since: "0.33.0", Now: "logConfig.logLevel.webhook"},
	{Path: "logEncoding", Since: "0.33.0", Now: "logConfig.logEncoding"},
	{Path: "settings.aws.assumeRoleARN", Since: "0.33.0", Now: "settings.assumeRoleARN"},
	{Path: "settings.aws.assumeRoleDuration", Since: "0.33.0", Now: "settings.assumeRoleDuration"},
	{Path: "settings.aws.clusterCABundle", Since: "0.33.0", Now: "settings.clusterCABundle"},
	{Path: "settings.aws.clusterEndpoint", Since: "0.33.0", Now: "settings.clusterEndpoint"},
	{Path: "settings.aws.clusterName", Since: "0.33.0", Now: "settings.clusterName"},
	{Path: "settings.aws.interruptionQueueName", Since: "0.33.0", Now: "settings.interruptionQueue"},
	{Path: "settings.aws.isolatedVPC", Since: "0.33.0", Now: "settings.isolatedVPC"},
	{Path: "settings.aws.reservedENIs", Since: "0.33.0", Now: "settings.reservedENIs"},
	{Path: "settings.aws.vmMemoryOverheadPercent", Since: "0.33.0", Now: "settings.vmMemoryOverheadPercent"},
	{Path: "settings.featureGates.driftEnabled", Since: "0.33.0", Now: "settings.featureGates.drift"},
	{Path: "settings.aws.defaultInstanceProfile", Since: "0.33.0", Why: "the EC2NodeClass names a role"},
	{Path: "settings.aws.enablePodENI", Since: "0.33.0", Why: "it is always on"},
	{Path: "settings.aws.enableENILimitedPodDensity", Since: "0.33.0", Why: "maxPods is a kubelet setting of the definitions"},
	{Path: "settings.aws.tags", Since: "0.33.0", Why: "tags are the EC2NodeClass's"},

	{Path: "logConfig.outputPaths", Since: "1.0.0", Now: "logOutputPaths"},
	{Path: "logConfig.errorOutputPaths", Since: "1.0.0", Now: "logErrorOutputPaths"},
	{Path: "logConfig.logLevel.global", Since: "1.0.0", Now: "logLevel"},
	{Path: "logConfig.logLevel.controller", Since: "1.0.0", Now: "logLevel"},
	{Path: "logConfig.logLevel.webhook", Since: "1.0.0", Why: zapGone},
	{Path: "logConfig.enabled", Since: "1.0.0", Why: zapGone},
	{Path: "logConfig.logEncoding", Since: "1.0.0", Why: zapGone},
	{Path: "settings.assumeRoleARN", Since: "1.0.0", Why: roleGone},
	{Path: "settings.assumeRoleDuration", Since: "1.0.0", Why: roleGone},
	{Path: "settings.featureGates.drift", Since: "1.0.0", Why: "drift is always on"},
	{Path: "controller.env[ASSUME_ROLE_ARN]", Since: "1.0.0", Why: roleGone},
	{Path: "controller.env[ASSUME_ROLE_DURATION]", Since: "1.0.0", Why: roleGone},
	{Path: "controller.env[LEADER_ELECT]", Since: "1.0.0", Now: "controller.env[DISABLE_LEADER_ELECTION]"},

	{Path: "webhook.enabled", Since: "1.1.0", Why: webhooksGone},
	{Path: "webhook.port", Since: "1.1.0", Why: webhooksGone},
	{Path: "webhook.metrics.port", Since: "1.1.0", Why: webhooksGone},
	{Path: "controller.env[DISABLE_WEBHOOK]", Since: "1.1.0", Why: webhooksGone},
	{Path: "controller.env[WEBHOOK_PORT]", Since: "1.1.0", Why: webhooksGone},
	{Path: "controller.env[WEBHOOK_METRICS_PORT]", Since: "1.1.0", Why: webhooksGone},
}

// settingsGone are those that an upgrade takes away.
func settingsGone(from, to *semver.Version) []Setting {
	var gone []Setting
	for _, s := range settings {
		if crosses(from, to, s.Since) {
			gone = append(gone, s)
		}
	}
	return gone
}

// Gone returns the settings that values make use of and an upgrade takes away.
// Errors: *VersionError.
func Gone(values map[string]any, from, to string) ([]Setting, error) {
	a, b, err := parsePair(from, to)
	if err != nil {
		return nil, err
	}
	var used []Setting
	for _, s := range settingsGone(a, b) {
		if s.in(values) {
			used = append(used, s)
		}
	}
	return used, nil
}

// in says whether values set it.
func (s Setting) in(values map[string]any) bool {
	if name, ok := s.variable(); ok {
		controller, _ := values["controller"].(map[string]any)
		env, _ := controller["env"].([]any)
		for _, one := range env {
			if entry, _ := one.(map[string]any); entry["name"] == name {
				return true
			}
		}
		return false
	}
	keys := strings.Split(s.Path, ".")
	for _, key := range keys[:len(keys)-1] {
		values, _ = values[key].(map[string]any)
	}
	_, set := values[keys[len(keys)-1]]
	return set
}

// variable is the name of the environment variable, where it is one.
func (s Setting) variable() (name string, ok bool) {
	name, ok = strings.CutPrefix(s.Path, "controller.env[")
	return strings.TrimSuffix(name, "]"), ok
}
