package main

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/plumbline-dev/plumbline/provision/karpenter"
	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/reconcile/evaluate"
	"github.com/plumbline-dev/plumbline/reconcile/plan"
	"github.com/plumbline-dev/plumbline/reconcile/review"
	"github.com/plumbline-dev/plumbline/render"
	"github.com/plumbline-dev/plumbline/render/schema"
)

// at creates a folder whose plumbline.yaml contains a version.
func at(t *testing.T, version, rest string) string {
	t.Helper()
	return folder(t, map[string]string{"plumbline.yaml": strings.Replace(karpenterYAML, "version: 1.14.3", "version: "+version, 1) + rest})
}

func TestUpgrade(t *testing.T) {
	values := "values: {replicas: 1, webhook: {enabled: false}, controller: {env: [{name: DISABLE_WEBHOOK, value: 'true'}]}}\n"
	cases := map[string]struct {
		args []string
		code int
	}{
		"none":         {[]string{at(t, "1.15.0", "")}, exitDone},
		"one-hop":      {[]string{at(t, "1.8.6", values), "--to", "1.12.1"}, exitChanges},
		"over-a-gate":  {[]string{at(t, "1.0.3", values)}, exitChanges},
		"the-long-way": {[]string{"--from", "0.31.4"}, exitChanges},
		"from-the-lts": {[]string{at(t, "1.14.3", "")}, exitChanges},
		"not-known":    {[]string{at(t, "1.15.0", ""), "--to", "1.20.0"}, exitChanges},
		"back":         {[]string{at(t, "1.14.3", ""), "--to", "1.8.6"}, exitChanges},
		"lts":          {[]string{at(t, "1.9.3", ""), "--channel", "lts"}, exitChanges},
		"fork":         {[]string{at(t, "1.14.3", ""), "--to", "1.14.3+acme.3"}, exitChanges},
		"from-a-fork":  {[]string{"--from", "1.14.3+acme.3", "--to", "1.14.3"}, exitChanges},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			got := plumbline(t, append([]string{"upgrade"}, c.args...)...)
			if got.code != c.code || got.err != "" {
				t.Errorf("code %d, says %s", got.code, got.err)
			}
			golden(t, "upgrade-"+name+".table", got.out)
		})
	}
}

// TestValuesOfAFolder: values files count like plumbline.yaml's own values, and those only in the cluster are reported
// as unknown.
func TestValuesOfAFolder(t *testing.T) {
	files := map[string]string{
		"plumbline.yaml": strings.Replace(karpenterYAML, "version: 1.14.3", "version: 1.0.3", 1) +
			"valuesFrom: [{kind: Secret, name: s}]\nvaluesFiles: [./v.yaml]\nvalues: {replicas: 1}\n",
		"v.yaml": "webhook: {enabled: false}\n",
	}
	got := plumbline(t, "upgrade", folder(t, files))
	for _, want := range []string{"webhook.enabled", "values of secret s, key values.yaml are stored in the cluster and unknown here"} {
		if got.code != exitChanges || !strings.Contains(got.out, want) {
			t.Errorf("code %d, prints %s%s; want %q", got.code, got.out, got.err, want)
		}
	}
	files["v.yaml"] = "settings:\n  clusterName: other\n"
	got = plumbline(t, "upgrade", folder(t, files))
	if want := `v.yaml:2: settings.clusterName is "other"`; got.code != exitFailed || !strings.Contains(got.err, want) {
		t.Errorf("code %d, says %s; want %q", got.code, got.err, want)
	}
}

// TestUpgradeFormats: each format contains the same report.
func TestUpgradeFormats(t *testing.T) {
	from := at(t, "1.0.3", "values: {webhook: {enabled: false}}\n")
	got := plumbline(t, "upgrade", from, "-o", "json")
	if got.code != exitChanges {
		t.Errorf("code %d, says %s", got.code, got.err)
	}
	golden(t, "upgrade-over-a-gate.json", got.out)
	var report upgradeReport
	if err := json.Unmarshal([]byte(got.out), &report); err != nil || report.From != "1.0.3" || report.To != karpenter.Newest() || len(report.Hops) != 2 {
		t.Errorf("%v: %+v", err, report)
	}
	if empty := plumbline(t, "upgrade", at(t, karpenter.Newest(), ""), "-o", "json"); empty.code != exitDone || !strings.Contains(empty.out, `"hops": []`) {
		t.Errorf("code %d, prints %s", empty.code, empty.out)
	}
}

// TestUpgradeChannels: the target of a channel is its newest version, and no other channel is known.
func TestUpgradeChannels(t *testing.T) {
	for _, channel := range karpenter.Channels() {
		var report upgradeReport
		got := plumbline(t, "upgrade", "--from", "1.8.6", "--channel", channel.Name, "-o", "json")
		if err := json.Unmarshal([]byte(got.out), &report); err != nil || report.To != channel.Version || got.code != exitChanges {
			t.Errorf("%s: code %d, to %q, %v", channel.Name, got.code, report.To, err)
		}
		if diff := cmp.Diff(karpenter.Channels(), report.Channels); diff != "" {
			t.Errorf("channels:\n%s", diff)
		}
		if report.Support == nil || report.Support.Until != "2026-02-06" || report.ClusterKubernetes != "" {
			t.Errorf("%+v", report)
		}
	}
	if got := plumbline(t, "upgrade", "--from", "1.8.6", "--channel", "stable"); got.code != exitFailed || !strings.Contains(got.err, `channel is "stable": choose lts or latest`) {
		t.Errorf("code %d, %s", got.code, got.err)
	}
	if got := plumbline(t, "upgrade", "--from", "1.8.6", "--channel", "lts", "--to", "1.12.1"); got.code != exitFailed {
		t.Errorf("both: code %d", got.code)
	}
}

// TestUpgradeAgainst: the Kubernetes version of the cluster is part of the choice, and a hop that it does not permit is
// marked as refused.
func TestUpgradeAgainst(t *testing.T) {
	for version, refused := range map[string]bool{"v1.35.2-eks-113cf36": false, "v1.20.15": true} {
		s, kubeconfig := serve(t, nodeSync("prod"))
		s.texts["/version"] = `{"major": "1", "gitVersion": "` + version + `"}`
		var report upgradeReport
		got := plumbline(t, "upgrade", at(t, "1.12.1", ""), "--to", karpenter.Newest(), "--against", "prod", "-o", "json", "--kubeconfig", kubeconfig)
		if err := json.Unmarshal([]byte(got.out), &report); err != nil || got.code != exitChanges || len(report.Hops) != 1 || report.ClusterKubernetes != version {
			t.Fatalf("%s: code %d, %v: %s%s", version, got.code, err, got.out, got.err)
		}
		if has := strings.Contains(strings.Join(report.Hops[0].Notes, "\n"), "refused: karpenter "+karpenter.Newest()+" knows kubernetes"); has != refused {
			t.Errorf("%s: notes %q", version, report.Hops[0].Notes)
		}
	}
}

// TestUpgradeWrites the next hop, and changes nothing else in the file.
func TestUpgradeWrites(t *testing.T) {
	dir := at(t, "1.0.3  # since summer", "\n# end\n")
	file := filepath.Join(dir, "plumbline.yaml")
	if err := os.Chmod(file, 0o640); err != nil {
		t.Fatal(err)
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	text := string(want)
	for _, step := range []struct{ was, is, says string }{
		{"1.0.3", "1.0.14", "written: version 1.0.14\ncommit it, and after it has succeeded, upgrade to 1.14.3 again\n"},
		{"1.0.14", "1.14.3", "written: version 1.14.3\n"},
		{"1.14.3", "1.14.3", "nothing to do: the version is 1.14.3\n"},
	} {
		got := plumbline(t, "upgrade", dir, "--to", "1.14.3", "--write")
		if got.code != exitDone || got.err != "" || !strings.HasSuffix(got.out, step.says) {
			t.Errorf("to %s: code %d, says %s, prints %s", step.is, got.code, got.err, got.out)
		}
		text = strings.Replace(text, step.was, step.is, 1)
		is, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(text, string(is)); diff != "" {
			t.Error(diff)
		}
	}
	if info, err := os.Stat(file); err != nil || info.Mode().Perm() != 0o640 {
		t.Errorf("mode %v, %v", info.Mode(), err)
	}
}

func TestUpgradeRefuses(t *testing.T) {
	external := strings.Replace(karpenterYAML, "version: 1.14.3", "management: External", 1)
	cases := map[string]struct {
		yaml, to string
		says     string
	}{
		"back too far":       {karpenterYAML, "0.37.7", "karpenter 1.14.3 cannot be downgraded to 0.37.7: plumbline manages karpenter 1.0.0 and later"},
		"no version":         {karpenterYAML, "1.x", `version of karpenter is "1.x": give one full version`},
		"someone else's":     {external, "1.14.3", "management is External"},
		"a broken file":      {karpenterYAML + "chart: x\n", "1.14.3", "plumbline.yaml:5: "},
		"not to be edited":   {strings.Replace(karpenterYAML, "version: ", "version: &a ", 1), "1.12.1", "change it by hand"},
		"a file that is not": {"", "1.14.3", "it holds 0 documents"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			dir := folder(t, map[string]string{"plumbline.yaml": c.yaml})
			got := plumbline(t, "upgrade", dir, "--to", c.to, "--write")
			if got.code != exitFailed || got.out != "" || !strings.Contains(got.err, c.says) {
				t.Errorf("code %d, prints %q, says %q", got.code, got.out, got.err)
			}
			is, err := os.ReadFile(filepath.Join(dir, "plumbline.yaml"))
			if err != nil || string(is) != c.yaml {
				t.Errorf("the file has changed: %s, %v", is, err)
			}
		})
	}
}

// TestUpgradeGoesBackOnlyWhenAsked: a version newer than all known ones is kept.
func TestUpgradeGoesBackOnlyWhenAsked(t *testing.T) {
	folder := t.TempDir()
	file := filepath.Join(folder, "plumbline.yaml")
	written := []byte("apiVersion: config.plumbline.dev/v1alpha1\nkind: Karpenter\nversion: 1.99.0\ncluster: {name: prod, region: eu-west-1}\nnodes: [.]\n")
	if err := os.WriteFile(file, written, 0o600); err != nil {
		t.Fatal(err)
	}
	got := plumbline(t, "upgrade", folder, "--write")
	if after, err := os.ReadFile(file); err != nil || string(after) != string(written) || got.code != exitFailed || !strings.Contains(got.err, "--to") {
		t.Errorf("code %d, %q; the file (%v):\n%s", got.code, got.err, err, after)
	}
	got = plumbline(t, "upgrade", folder, "--write", "--channel", "lts")
	if got.code != exitFailed || !strings.Contains(got.err, "the newest version of channel lts that this plumbline knows: choose the target with --to VERSION") {
		t.Errorf("with --channel: code %d, %q", got.code, got.err)
	}
	got = plumbline(t, "upgrade", folder, "--write", "--to", "1.14.3")
	if after, err := os.ReadFile(file); err != nil || !strings.Contains(string(after), "version: 1.14.3") || got.code != exitDone {
		t.Errorf("with --to: code %d, %q; the file (%v):\n%s", got.code, got.err, err, after)
	}
}

// fleet is the live state: a pool whose class follows the newest AMI, and one whose class pins it.
func fleet() plan.Live {
	live := plan.Live{Objects: map[render.Ref]*plan.Object{}}
	add := func(version, kind, name string, spec map[string]any) {
		object := map[string]any{"apiVersion": version, "kind": kind, "metadata": map[string]any{"name": name}, "spec": spec}
		live.Objects[render.Ref{Kind: kind, Name: name}] = plan.NewObject(&unstructured.Unstructured{Object: object})
	}
	for class, alias := range map[string]string{"newest": "al2023@latest", "pinned": "al2023@v20260101"} {
		add("karpenter.k8s.aws/v1", render.EC2NodeClass, class, map[string]any{"amiSelectorTerms": []any{map[string]any{"alias": alias}}})
		ref := map[string]any{"group": "karpenter.k8s.aws", "kind": render.EC2NodeClass, "name": class}
		add("karpenter.sh/v1", render.NodePool, "on-"+class, map[string]any{"template": map[string]any{"spec": map[string]any{"nodeClassRef": ref}}})
	}
	live.NodeClaims = []plan.NodeClaim{{Pool: "on-pinned"}, {Pool: "on-pinned"}, {Pool: "on-newest"}}
	return live
}

// embeddedCluster returns a cluster with the CRDs that this program was built with.
func embeddedCluster(t *testing.T) client.Client {
	t.Helper()
	scheme, err := newScheme()
	if err != nil {
		t.Fatal(err)
	}
	crds, err := embeddedTarget("")
	if err != nil {
		t.Fatal(err)
	}
	builder := fake.NewClientBuilder().WithScheme(scheme)
	for _, crd := range crds {
		builder.WithObjects(crd)
	}
	return builder.Build()
}

// embeddedTarget returns the CRDs that this program was built with.
func embeddedTarget(string) ([]*apiextensionsv1.CustomResourceDefinition, error) {
	crds, _, err := schema.Embedded()
	return crds, err
}

func TestForecastUpgrade(t *testing.T) {
	const latest = "unknown: EC2NodeClass newest follows al2023@latest, whose AMI may be another one by then"
	cases := map[string]struct {
		inForce, git string
		external     bool
		want         map[string]string // by pool; nil: no upgrade
		refused      string
	}{
		"another hash":       {inForce: "1.8.6", git: "1.14.3", want: map[string]string{"on-newest": latest, "on-pinned": "annotated again, not replaced"}},
		"the same hash":      {inForce: "1.12.1", git: "1.14.3", want: map[string]string{"on-newest": latest, "on-pinned": "untouched"}},
		"a hop is skipped":   {inForce: "1.0.1", git: "1.14.3", want: map[string]string{"on-newest": latest, "on-pinned": "annotated again, not replaced"}, refused: "set version 1.0.14"},
		"the version stays":  {inForce: "1.14.3", git: "1.14.3"},
		"nothing in force":   {git: "1.14.3"},
		"somebody else's is": {inForce: "1.8.6", external: true},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			sync := &v1alpha1.NodeSync{Status: v1alpha1.NodeSyncStatus{Karpenter: &v1alpha1.KarpenterStatus{Version: c.inForce}}}
			seen := &review.Preview{Live: fleet(), Desired: evaluate.Desired{Karpenter: &render.Karpenter{Version: c.git, Management: render.Managed}}}
			if c.external {
				seen.Karpenter.Management = render.External
			}
			got, err := forecastUpgrade(t.Context(), embeddedCluster(t), sync, seen, embeddedTarget)
			if err != nil {
				t.Fatal(err)
			}
			if (got == nil) != (c.want == nil) {
				t.Fatalf("forecast: %+v", got)
			}
			if got == nil {
				return
			}
			said := map[string]string{}
			for _, pool := range got.Pools {
				said[pool.Pool] = pool.Means
			}
			if diff := cmp.Diff(c.want, said); diff != "" {
				t.Errorf("pools (-want +got):\n%s", diff)
			}
			if !strings.Contains(got.Refused, c.refused) || (got.Refused == "") != (c.refused == "") {
				t.Errorf("refused: %q", got.Refused)
			}
		})
	}
}

// TestForecastPrints a line for each pool, sorted by name, and exits with the code of a change though no definition
// changes.
func TestForecastPrints(t *testing.T) {
	sync := &v1alpha1.NodeSync{Status: v1alpha1.NodeSyncStatus{Karpenter: &v1alpha1.KarpenterStatus{Version: "1.8.6"}}}
	seen := &review.Preview{Live: fleet(), Desired: evaluate.Desired{Karpenter: &render.Karpenter{Version: "1.14.3", Management: render.Managed}}}
	forecast, err := forecastUpgrade(t.Context(), embeddedCluster(t), sync, seen, embeddedTarget)
	if err != nil {
		t.Fatal(err)
	}
	report := newPlanReport(&planned{Plan: &plan.Plan{}, upgrade: forecast})
	var out strings.Builder
	if err := report.print(&out); err != nil {
		t.Fatal(err)
	}
	golden(t, "plan-upgrade.table", out.String())
	var exit *exitError
	if !errors.As(report.exit(), &exit) || exit.code != exitChanges {
		t.Errorf("exit: %v", exit)
	}
}
