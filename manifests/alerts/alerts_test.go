package alerts

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/common/model"
	"github.com/prometheus/common/promslog"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/rulefmt"
	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/promql/parser"
	"github.com/prometheus/prometheus/promql/promqltest"
	"github.com/prometheus/prometheus/rules"
	"github.com/prometheus/prometheus/util/teststorage"
	"sigs.k8s.io/yaml"
)

// read returns the rules of the PrometheusRule.
func read(t *testing.T) []rulefmt.Rule {
	t.Helper()
	text, err := os.ReadFile("../monitoring/prometheusrule.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var object struct{ Spec any }
	if err := yaml.Unmarshal(text, &object); err != nil {
		t.Fatal(err)
	}
	spec, err := yaml.Marshal(object.Spec)
	if err != nil {
		t.Fatal(err)
	}
	groups, problems := rulefmt.Parse(spec, false, model.UTF8Validation, parser.NewParser(parser.Options{}), promslog.NewNopLogger())
	if len(problems) > 0 {
		t.Fatal(problems)
	}
	return groups.Groups[0].Rules
}

// loaded returns series in the notation of promtool's tests, one minute apart.
func loaded(t *testing.T, series string) *teststorage.TestStorage {
	t.Helper()
	return promqltest.LoadedStorage(t, "load 1m\n  "+strings.Join(strings.Split(strings.TrimSpace(series), "\n"), "\n  ")+"\n")
}

func engine(t *testing.T) *promql.Engine {
	return promqltest.NewTestEngine(t, false, 0, promqltest.DefaultMaxSamplesPerQuery)
}

// firing evaluates a rule each minute up to a time, and returns the texts of the alerts that fire then.
func firing(t *testing.T, rule rulefmt.Rule, series string, at time.Duration) (fires []string) {
	t.Helper()
	storage, engine := loaded(t, series), engine(t)
	expr, err := parser.NewParser(parser.Options{}).ParseExpr(rule.Expr)
	if err != nil {
		t.Fatalf("%s: %v", rule.Alert, err)
	}
	alert := rules.NewAlertingRule(rule.Alert, expr, time.Duration(rule.For), time.Duration(rule.KeepFiringFor),
		labels.FromMap(rule.Labels), labels.FromMap(rule.Annotations), labels.EmptyLabels(), "", true, promslog.NewNopLogger())
	for now := time.Duration(0); now <= at; now += time.Minute {
		if _, err := alert.Eval(t.Context(), 0, time.Unix(0, 0).Add(now), rules.EngineQueryFunc(engine, storage), nil, 0); err != nil {
			t.Fatalf("%s: %v", rule.Alert, err)
		}
	}
	for _, active := range alert.ActiveAlerts() {
		if active.State == rules.StateFiring {
			fires = append(fires, active.Annotations.Get("summary"))
		}
	}
	slices.Sort(fires)
	return fires
}

const (
	of    = `{kind="NodeSync", namespace="plumbline-system", name="prod", pod="a"`
	ofOwn = `{namespace="plumbline-system", name="prod", pod="a"`
	prod  = "NodeSync plumbline-system/prod"
)

// cases are series with which an alert fires at a time, or does not.
var cases = map[string][]struct {
	name, series string
	at           time.Duration
	fires        []string
}{
	"PlumblineAbsent": {
		{"none has ever answered", `up{job="other"} 1x60`, 20 * time.Minute, []string{"plumbline is not running, or Prometheus cannot scrape it"}},
		{"none answers", `up{job="plumbline-metrics"} 0x60`, 20 * time.Minute, []string{"plumbline is not running, or Prometheus cannot scrape it"}},
		{"one of two answers", "up{job=\"plumbline-metrics\", pod=\"a\"} 0x60\nup{job=\"plumbline-metrics\", pod=\"b\"} 1x60", 30 * time.Minute, nil},
		{"it was restarted", `up{job="plumbline-metrics"} 1x5 0x5 1x40`, 30 * time.Minute, nil},
	},
	"PlumblineNotReady": {
		{"failed", `gotk_reconcile_condition` + of + `, type="Ready", status="False"} 1x60`, 20 * time.Minute, []string{prod + " is not Ready"}},
		{"not for long", `gotk_reconcile_condition` + of + `, type="Ready", status="False"} 1x60`, 10 * time.Minute, nil},
		{"at work", `gotk_reconcile_condition` + of + `, type="Ready", status="False"} 0x60`, 20 * time.Minute, nil},
		{"not stalled", `gotk_reconcile_condition` + of + `, type="Stalled", status="False"} 1x60`, 20 * time.Minute, nil},
		{"of Flux", `gotk_reconcile_condition{kind="Kustomization", namespace="a", name="b", type="Ready", status="False"} 1x60`, 20 * time.Minute, nil},
	},
	"PlumblineStalled": {
		{"stalled", `plumbline_stall_age_seconds` + ofOwn + `} 1+60x60`, 20 * time.Minute, []string{prod + " waits for a person"}},
		{"nothing stalls", `plumbline_stall_age_seconds` + ofOwn + `} 0x60`, 20 * time.Minute, nil},
	},
	"PlumblineRemovalHeld": {
		{"held", `plumbline_removals` + ofOwn + `, phase="Held"} 2x120`, 90 * time.Minute, []string{"removals of " + prod + " are held"}},
		{"released in time", `plumbline_removals` + ofOwn + `, phase="Held"} 2x30 0x90`, 90 * time.Minute, nil},
		{"draining", `plumbline_removals` + ofOwn + `, phase="Draining"} 2x120`, 90 * time.Minute, nil},
	},
	"PlumblineChangesHeld": {
		{"held", `plumbline_held_changes` + ofOwn + `} 2x120`, 90 * time.Minute, []string{"changes of " + prod + " are held"}},
		{"released in time", `plumbline_held_changes` + ofOwn + `} 2x30 0x90`, 90 * time.Minute, nil},
	},
	"PlumblineRolloutBraked": {
		{"stopped", `plumbline_rollout_braked` + ofOwn + `, pool="general", reason="FailedLaunches"} 1x30`, 5 * time.Minute, []string{"a rollout of " + prod + " is stopped in NodePool general"}},
		{"resumed", `plumbline_rollout_braked` + ofOwn + `, pool="general", reason="FailedLaunches"} 1x3 _x60`, 30 * time.Minute, nil},
	},
	"PlumblineRolloutLate": {
		{"it will take too long", `plumbline_rollout_late` + ofOwn + `} 0x10 1x60`, 30 * time.Minute, []string{"a rollout of " + prod + " exceeds its timeout, or is expected to"}},
		{"the leader changes", `plumbline_rollout_late` + ofOwn + `} 1x10 _x50
			plumbline_rollout_late{namespace="plumbline-system", name="prod", pod="b"} _x10 1x50`, 30 * time.Minute, []string{"a rollout of " + prod + " exceeds its timeout, or is expected to"}},
		{"in time", `plumbline_rollout_late` + ofOwn + `} 0x60`, 30 * time.Minute, nil},
		{"it was for a moment", `plumbline_rollout_late` + ofOwn + `} 0x10 1x3 0x60`, 30 * time.Minute, nil},
	},
	"PlumblineRemovalSlow": {
		{"for long", `plumbline_removals_in_progress` + ofOwn + `} 1x900
			plumbline_removals` + ofOwn + `, phase="Draining"} 1x900`, 13 * time.Hour, []string{"removals of " + prod + " have been in progress for 12 hours"}},
		{"one takes over from another", `plumbline_removals_in_progress` + ofOwn + `} 1x400 2x10 1x490`, 13 * time.Hour, []string{"removals of " + prod + " have been in progress for 12 hours"}},
		{"held, stalled or frozen", `plumbline_removals_in_progress` + ofOwn + `} 0x900
			plumbline_removals` + ofOwn + `, phase="Held"} 1x900
			plumbline_removals` + ofOwn + `, phase="Pacing"} 1x900
			plumbline_removals` + ofOwn + `, phase="Draining"} 1x900`, 13 * time.Hour, nil},
		{"a window closes between", `plumbline_removals_in_progress` + ofOwn + `} 1x400 0x10 1x400`, 13 * time.Hour, nil},
	},
	"PlumblineDrift": {
		{"reported for long", `plumbline_drift` + ofOwn + `, kind="NodePool", object="general"} 1x60
			plumbline_drift` + ofOwn + `, kind="Instance", object="i-1"} 1x60`, 30 * time.Minute, []string{"objects or instances of " + prod + " differ from Git"}},
		{"one object after another", `plumbline_drift` + ofOwn + `, kind="NodePool", object="general"} 1x10 _x50
			plumbline_drift` + ofOwn + `, kind="NodePool", object="batch"} _x8 1x52`, 30 * time.Minute, []string{"objects or instances of " + prod + " differ from Git"}},
		{"corrected in time", `plumbline_drift` + ofOwn + `, kind="NodePool", object="general"} 1x10 _x50`, 30 * time.Minute, nil},
	},
	"PlumblineOrphanedInstances": {
		{"for long", `plumbline_orphaned_instances` + ofOwn + `} 2x120`, 90 * time.Minute, []string{"EC2 instances of " + prod + " have no NodeClaim"}},
		{"Karpenter has ended it", `plumbline_orphaned_instances` + ofOwn + `} 1x30 0x90`, 90 * time.Minute, nil},
	},
	"PlumblineTerminationStalled": {
		{"for long", `plumbline_terminations_stalled` + ofOwn + `} 2x60`, 20 * time.Minute, []string{"nodes of " + prod + " do not terminate"}},
		{"terminated in time", `plumbline_terminations_stalled` + ofOwn + `} 1x10 0x50`, 30 * time.Minute, nil},
	},
	"PlumblineVolumesLeft": {
		{"for long", `plumbline_volume_attachments_left` + ofOwn + `} 1x60`, 40 * time.Minute, []string{"volumes of " + prod + " are attached to nodes that no longer exist"}},
		{"detached in time", `plumbline_volume_attachments_left` + ofOwn + `} 1x20 0x40`, 50 * time.Minute, nil},
	},
	"PlumblineResourcesLeft": {
		{"for long", `plumbline_resources_left` + ofOwn + `} 3x120`, 90 * time.Minute, []string{"terminated nodes of " + prod + " have left resources in AWS"}},
		{"deleted in time", `plumbline_resources_left` + ofOwn + `} 3x40 0x80`, 90 * time.Minute, nil},
		{"a moment in each of several removals", `plumbline_resources_left` + ofOwn + `} 1x40 0x10 1x40 0x30`, 90 * time.Minute, nil},
	},
	"PlumblineOrphanedNodes": {
		{"for long", `plumbline_orphaned_nodes` + ofOwn + `} 2x1500`, 25 * time.Hour, []string{"NodePools that " + prod + " has orphaned have had nodes for a day"}},
		{"handed over within hours", `plumbline_orphaned_nodes` + ofOwn + `} 2x300 0x1200`, 25 * time.Hour, nil},
	},
	"PlumblineDeletionUnguarded": {
		{"for long", `plumbline_deletion_unguarded` + ofOwn + `} 1x60`, 40 * time.Minute, []string{"objects of " + prod + " may be deleted by accident"}},
		{"restored in time", `plumbline_deletion_unguarded` + ofOwn + `} 1x10 0x40`, 40 * time.Minute, nil},
	},
	"PlumblineIdentityConflict": {
		{"at once", `plumbline_identity_conflict` + ofOwn + `} 1x10`, time.Minute, []string{"another controller uses the cluster name of " + prod}},
		{"at rest", `plumbline_identity_conflict` + ofOwn + `} 0x60`, 40 * time.Minute, nil},
	},
	"PlumblineNotReconciling": {
		{"no pass", `gotk_reconcile_duration_seconds_count` + of + `} 5x120
			gotk_suspend_status` + of + `} 0x120`, 90 * time.Minute, []string{prod + " is not reconciled"}},
		{"suspended", `gotk_reconcile_duration_seconds_count` + of + `} 5x120
			gotk_suspend_status` + of + `} 1x120`, 90 * time.Minute, nil},
		{"a pass each minute", `gotk_reconcile_duration_seconds_count` + of + `} 5+1x120`, 90 * time.Minute, nil},
		{"another replica leads", `gotk_reconcile_duration_seconds_count` + of + `} 5x120
			gotk_reconcile_duration_seconds_count{kind="NodeSync", namespace="plumbline-system", name="prod", pod="b"} 1+1x120`, 90 * time.Minute, nil},
	},
	"PlumblineSuspended": {
		{"for long", `gotk_suspend_status` + of + `} 1x1500`, 25 * time.Hour, []string{prod + " has been suspended for a day"}},
		{"for an hour", `gotk_suspend_status` + of + `} 0x1440 1x60`, 25 * time.Hour, nil},
	},
	"PlumblineStatusWritesFailing": {
		{"again and again", `plumbline_status_writes_failed_total` + ofOwn + `} 0+1x60`, 40 * time.Minute, []string{"the status of " + prod + " cannot be written"}},
		{"once", `plumbline_status_writes_failed_total` + ofOwn + `} 0x10 1x50`, 40 * time.Minute, nil},
	},
	"PlumblineCommitStatusesDelayed": {
		{"for long", `plumbline_commit_status_age_seconds` + ofOwn + `} 0+60x60`, 50 * time.Minute, []string{"commit statuses of " + prod + " are delayed"}},
		{"posted", `plumbline_commit_status_age_seconds` + ofOwn + `} 0+60x20 0x40`, 50 * time.Minute, nil},
	},
	"PlumblineCommitStatusesStuck": {
		{"stuck", `plumbline_commit_statuses_stuck` + ofOwn + `} 1x60`, 20 * time.Minute, []string{"commit statuses of " + prod + " cannot be queued"}},
		{"not", `plumbline_commit_statuses_stuck` + ofOwn + `} 0x60`, 20 * time.Minute, nil},
	},
	"PlumblineWebhooksRefused": {
		{"another token", `plumbline_webhook_requests_total{host="github", code="401"} 0+1x90`, 60 * time.Minute, []string{"webhooks of github are refused"}},
		{"a guess now and then", `plumbline_webhook_requests_total{host="github", code="401"} 0x50 1x20 2x20`, 80 * time.Minute, nil},
		{"accepted", `plumbline_webhook_requests_total{host="github", code="202"} 0+9x90`, 60 * time.Minute, nil},
	},
}

// TestAlerts: alerts fire when they should, and not otherwise.
func TestAlerts(t *testing.T) {
	tested := map[string]bool{}
	for _, rule := range read(t) {
		tested[rule.Alert] = true
		fired, silent := false, false
		for _, c := range cases[rule.Alert] {
			t.Run(rule.Alert+"/"+c.name, func(t *testing.T) {
				got := firing(t, rule, c.series, c.at)
				if diff := cmp.Diff(c.fires, got); diff != "" {
					t.Errorf("(-want +got):\n%s", diff)
				}
			})
			fired, silent = fired || c.fires != nil, silent || c.fires == nil
		}
		if !fired || !silent {
			t.Errorf("%s: no case has it fire, or none has it silent", rule.Alert)
		}
	}
	for name := range cases {
		if !tested[name] {
			t.Errorf("there is no alert %s", name)
		}
	}
}

// TestEachAlertHasARunbook: the runbook's first heading is the alert's name.
func TestEachAlertHasARunbook(t *testing.T) {
	for _, rule := range read(t) {
		want := "https://github.com/plumbline-dev/plumbline/blob/main/docs/runbooks/" + rule.Alert + ".md"
		if got := rule.Annotations["runbook_url"]; got != want {
			t.Errorf("%s: runbook_url is %s, want %s", rule.Alert, got, want)
		}
		text, err := os.ReadFile("../../docs/runbooks/" + rule.Alert + ".md")
		if err != nil {
			t.Error(err)
		} else if title := fmt.Sprintf("# %s\n", rule.Alert); !strings.HasPrefix(string(text), title) {
			t.Errorf("the runbook of %s does not begin with %q", rule.Alert, title)
		}
	}
}
