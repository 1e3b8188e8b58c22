package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/plumbline-dev/plumbline/provision/karpenter"
)

// at makes a folder whose plumbline.yaml has a version.
func at(t *testing.T, version, rest string) string {
	t.Helper()
	return folder(t, map[string]string{"plumbline.yaml": strings.Replace(karpenterYAML, "version: 1.14.1", "version: "+version, 1) + rest})
}

func TestUpgrade(t *testing.T) {
	values := "values: {replicas: 1, webhook: {enabled: false}, controller: {env: [{name: DISABLE_WEBHOOK, value: 'true'}]}}\n"
	cases := map[string]struct {
		args []string
		code int
	}{
		"none":         {[]string{at(t, "1.14.1", "")}, exitDone},
		"one-hop":      {[]string{at(t, "1.8.6", values), "--to", "1.12.1"}, exitChanges},
		"over-a-gate":  {[]string{at(t, "1.0.3", values)}, exitChanges},
		"the-long-way": {[]string{"--from", "0.31.4"}, exitChanges},
		"not-known":    {[]string{at(t, "1.14.1", ""), "--to", "1.20.0"}, exitChanges},
		"back":         {[]string{at(t, "1.14.1", ""), "--to", "1.8.6"}, exitChanges},
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

// TestValuesOfAFolder: files count as plumbline.yaml's own do, and what is in the
// cluster alone is said not to be known.
func TestValuesOfAFolder(t *testing.T) {
	files := map[string]string{
		"plumbline.yaml": strings.Replace(karpenterYAML, "version: 1.14.1", "version: 1.0.3", 1) +
			"valuesFrom: [{kind: Secret, name: s}]\nvaluesFiles: [./v.yaml]\nvalues: {replicas: 1}\n",
		"v.yaml": "webhook: {enabled: false}\n",
	}
	got := plumbline(t, "upgrade", folder(t, files))
	for _, want := range []string{"webhook.enabled", "values of secret s, key values.yaml are in the cluster, and not known here"} {
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

// TestUpgradeFormats: the report is the same in each.
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

// TestUpgradeWrites: the next hop, and nothing else in the file.
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
		{"1.0.3", "1.0.14", "written: version 1.0.14\ncommit it, and once it has succeeded ask for 1.14.1 again\n"},
		{"1.0.14", "1.14.1", "written: version 1.14.1\n"},
		{"1.14.1", "1.14.1", "nothing to do: the version is 1.14.1\n"},
	} {
		got := plumbline(t, "upgrade", dir, "--to", "1.14.1", "--write")
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
	external := strings.Replace(karpenterYAML, "version: 1.14.1", "management: External", 1)
	cases := map[string]struct {
		yaml, to string
		says     string
	}{
		"back too far":       {karpenterYAML, "0.37.7", "karpenter 1.14.1 cannot be taken back to 0.37.7: plumbline manages karpenter 1.0.0 and later"},
		"no version":         {karpenterYAML, "1.x", `version of karpenter is "1.x": give one full version`},
		"someone else's":     {external, "1.14.1", "management is External"},
		"a broken file":      {karpenterYAML + "chart: x\n", "1.14.1", "plumbline.yaml:5: "},
		"not to be edited":   {strings.Replace(karpenterYAML, "version: ", "version: &a ", 1), "1.12.1", "change it by hand"},
		"a file that is not": {"", "1.14.1", "it holds 0 documents"},
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

// TestUpgradeGoesBackOnlyWhenAsked: a version that is newer than those that are known is left
// as it is.
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
	got = plumbline(t, "upgrade", folder, "--write", "--to", "1.14.1")
	if after, err := os.ReadFile(file); err != nil || !strings.Contains(string(after), "version: 1.14.1") || got.code != exitDone {
		t.Errorf("with --to: code %d, %q; the file (%v):\n%s", got.code, got.err, err, after)
	}
}
