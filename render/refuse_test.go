package render_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/plumbline-dev/plumbline/render"
)

func TestRefused(t *testing.T) {
	object := func(apiVersion, kind, rest string) string {
		return "apiVersion: " + apiVersion + "\nkind: " + kind + "\nmetadata:\n  name: a\n" + rest
	}
	for name, tc := range map[string]struct {
		text string
		want []string
	}{
		"malformed":                {"a: b: c\n", []string{"a.yaml: not YAML: mapping values are not allowed in this context"}},
		"twice and unknown":        {strings.Replace(pool("a"), "spec:\n", "spec:\n  wight: 3\n", 1) + "  limits: {cpu: 1}\n  limits: {cpu: 2}\n", []string{"a.yaml:6: NodePool/a: spec.wight: Forbidden: unknown field", `a.yaml:12: key "limits" is written twice, first in line 11`}},
		"a list":                   {"- a\n", []string{"a.yaml:1: it is not an object: apiVersion and kind are missing"}},
		"a pointer of LFS":         {"version https://git-lfs.github.com/spec/v1\noid sha256:aa\nsize 12\n", []string{"a.yaml: it is a pointer of Git LFS, which is not fetched: commit the file itself"}},
		"no kind":                  {"apiVersion: v1\n", []string{"a.yaml:1: it is not an object: apiVersion or kind is missing"}},
		"a foreign kind":           {object("apps/v1", "Deployment", ""), []string{"a.yaml:2: Deployment (apps/v1) is refused: plumbline is for CapacityBuffer, NodePool, NodeOverlay and EC2NodeClass; leave it to the tool that applies the rest"}},
		"a name alike":             {object("other.example.com/v1", "NodePool", ""), []string{"a.yaml:2: NodePool (other.example.com/v1) is refused"}},
		"another NodeOverlay":      {object("karpenter.sh/v1", "NodeOverlay", ""), []string{"a.yaml:2: NodeOverlay is not known in version v1: write karpenter.sh/v1alpha1"}},
		"of cluster-autoscaler":    {object("autoscaling.x-k8s.io/v1beta1", "ProvisioningRequest", ""), []string{"a.yaml:2: ProvisioningRequest (autoscaling.x-k8s.io/v1beta1) is refused: plumbline is for "}},
		"a buffer of no namespace": {object("autoscaling.x-k8s.io/v1beta1", "CapacityBuffer", "spec: {podTemplateRef: {name: web}, replicas: 1}\n"), []string{"a.yaml:3: CapacityBuffer has no metadata.namespace"}},
		"a NodeClaim":              {object("karpenter.sh/v1", "NodeClaim", ""), []string{"a.yaml:2: NodeClaim is refused: Karpenter makes NodeClaims itself"}},
		"a NodeSync":               {object("plumbline.dev/v1alpha1", "NodeSync", ""), []string{"a.yaml:2: NodeSync is refused: it lives in the cluster"}},
		"a Provisioner":            {object("karpenter.sh/v1alpha5", "Provisioner", ""), []string{"a.yaml:2: karpenter.sh/v1alpha5 Provisioner became karpenter.sh/v1 NodePool: "}},
		"an AWSNodeTemplate":       {object("karpenter.k8s.aws/v1alpha1", "AWSNodeTemplate", ""), []string{"a.yaml:2: karpenter.k8s.aws/v1alpha1 AWSNodeTemplate became karpenter.k8s.aws/v1 EC2NodeClass: "}},
		"a beta NodePool":          {object("karpenter.sh/v1beta1", "NodePool", ""), []string{"a.yaml:2: karpenter.sh/v1beta1 NodePool became karpenter.sh/v1 NodePool: template.spec.kubelet moved to the EC2NodeClass, disruption.expireAfter to template.spec.expireAfter, and nodeClassRef takes group instead of apiVersion; `plumbline convert` converts it"}},
		"a version to come":        {object("karpenter.sh/v2", "NodePool", ""), []string{"a.yaml:2: NodePool is not known in version v2: write karpenter.sh/v1"}},
		"no name":                  {"apiVersion: karpenter.sh/v1\nkind: NodePool\nmetadata:\n  labels: {a: b}\n", []string{"a.yaml:3: NodePool has no metadata.name"}},
		"no metadata":              {"apiVersion: karpenter.sh/v1\nkind: NodePool\n", []string{"a.yaml:1: NodePool has no metadata"}},
		"out of a cluster": {
			object("karpenter.sh/v1", "NodePool", "  uid: x\n  resourceVersion: \"1\"\n  annotations:\n    karpenter.sh/nodepool-hash: \"1\"\n  labels:\n    plumbline.dev/nodesync: x\nstatus:\n  nodes: 1\n"),
			[]string{
				"a.yaml:5: metadata.uid is not for Git to say", "a.yaml:6: metadata.resourceVersion is not for Git to say",
				"a.yaml:8: the annotation karpenter.sh/nodepool-hash was copied", "a.yaml:10: the label plumbline.dev/nodesync is plumbline's to write", "a.yaml:11: status is Karpenter's to write",
			},
		},
		"marks of plumbline": {
			strings.Replace(pool("a"), "  template:\n", "  template:\n    metadata:\n      labels:\n        plumbline.dev/leaving: x\n", 1),
			[]string{"a.yaml:9: plumbline.dev/leaving is plumbline's to write, onto the template of a NodePool that is removed: leave it out"},
		},
		"annotations that Karpenter writes onto NodeClaims": {
			strings.Replace(pool("a"), "  template:\n", "  template:\n    metadata:\n      annotations:\n        karpenter.sh/do-not-disrupt: \"true\"\n"+
				"        karpenter.sh/nodeclaim-termination-timestamp: \"2020-01-01T00:00:00Z\"\n        acme.io/karpenter.sh: x\n        compatibility.karpenter.k8s.aws/cluster-name-tagged: x\n        karpenter.sh/do-not-repair: \"true\"\n", 1),
			[]string{
				"a.yaml:10: the annotation karpenter.sh/nodeclaim-termination-timestamp is Karpenter's to write onto NodeClaims: leave it out",
				"a.yaml:12: the annotation compatibility.karpenter.k8s.aws/cluster-name-tagged is Karpenter's",
			},
		},
		"without the deletion guard": {
			object("karpenter.sh/v1", "NodePool", "  annotations:\n    plumbline.dev/allow-deletion: \"true\"\n"),
			[]string{"a.yaml:6: the annotation plumbline.dev/allow-deletion opens the deletion guard, and is not for Git to set: leave it out"},
		},
		"left to itself": {
			object("karpenter.sh/v1", "NodePool", "  annotations:\n    plumbline.dev/orphaned: x\n  labels:\n    plumbline.dev/orphaned: x\n"),
			[]string{"a.yaml:6: the annotation plumbline.dev/orphaned was copied", "a.yaml:8: the label plumbline.dev/orphaned is plumbline's to write"},
		},
		"characters": {
			object("karpenter.sh/v1", "NodePool", "  annotations:\n    note: \"a\\x9b b\"\n    \"a\\x7f\": x\n    fine: \"\\x85\\x01\\u2028\"\n"),
			[]string{"a.yaml:5: NodePool: metadata.annotations has the character U+007F, which the API server takes in no definition", "a.yaml:6: NodePool: metadata.annotations.note has the character U+009B"},
		},
		"by the schema": {
			strings.Replace(pool("a"), "requirements: []", "requirements:\n        - key: kubernetes.io/arch\n          operator: Is\n  limit: {}\n  weight: 1000", 1),
			[]string{
				`a.yaml:11: NodePool/a: spec.template.spec.requirements[0].operator: Unsupported value: "Is"`,
				"a.yaml:12: NodePool/a: spec.limit: Forbidden: unknown field: did you mean limits?",
				"a.yaml:13: NodePool/a: spec.weight: Invalid value: 1000: should be less than or equal to 100",
			},
		},
		"fields of v1beta1": {
			"apiVersion: karpenter.sh/v1\nkind: NodePool\nmetadata:\n  name: a\nspec:\n  disruption:\n    consolidateAfter: 0s\n    expireAfter: 720h\n  template:\n    spec:\n" +
				"      kubelet:\n        maxPods: 20\n      nodeClassRef:\n        group: karpenter.k8s.aws\n        apiVersion: karpenter.k8s.aws/v1beta1\n        kind: EC2NodeClass\n        name: default\n      requirements: []\n",
			[]string{
				"a.yaml:8: NodePool/a: spec.disruption.expireAfter is a field of an earlier version of Karpenter: v1 has it in the template: move it to spec.template.spec.expireAfter",
				"a.yaml:11: NodePool/a: spec.template.spec.kubelet is a field of an earlier version of Karpenter: v1 has it in the EC2NodeClass: move it to spec.kubelet there",
				"a.yaml:15: NodePool/a: spec.template.spec.nodeClassRef.apiVersion is a field of an earlier version of Karpenter: v1 has group: karpenter.k8s.aws instead of apiVersion",
			},
		},
		"fields of v1alpha1": {
			object("karpenter.k8s.aws/v1", "EC2NodeClass", "spec:\n  role: x\n  amiSelectorTerms: [{alias: al2023@latest}]\n  subnetSelectorTerms: [{id: subnet-1}]\n  securityGroupSelectorTerms: [{id: sg-1}]\n  subnetSelector: {a: b}\n  launchTemplate: x\n"),
			[]string{"a.yaml:10: EC2NodeClass/a: spec.subnetSelector is a field of an earlier version of Karpenter: v1 has spec.subnetSelectorTerms", "a.yaml:11: EC2NodeClass/a: spec.launchTemplate is a field"},
		},
		"a schedule that is none": {
			strings.Replace(pool("a"), "requirements: []", "requirements: []\n  disruption:\n    consolidateAfter: 0s\n    budgets:\n      - nodes: 10%\n      - nodes: 10%\n        schedule: 99 * * * *\n        duration: 1h", 1),
			[]string{`a.yaml:15: NodePool/a: schedule "99 * * * *" of a disruption budget is no cron schedule: end of range (99) above maximum (59): 99`},
		},
		"an alias of two versions": {
			strings.Replace(class("a"), "al2023@latest", "bottlerocket@v1@v2", 1),
			[]string{`a.yaml:7: EC2NodeClass/a: alias "bottlerocket@v1@v2" has more than one @, which makes Karpenter's controller exit: write family@version`},
		},
		"an alias without the v": {
			strings.Replace(class("a"), "al2023@latest", "al2023@20260625", 1),
			[]string{`a.yaml:7: EC2NodeClass/a: alias "al2023@20260625" names no AMI: a version of al2023 is latest, or v and a date, such as v20260625`},
		},
		"an alias of Amazon Linux with the version of Bottlerocket": {
			strings.Replace(class("a"), "al2023@latest", "al2@v1.50.0", 1),
			[]string{`a.yaml:7: EC2NodeClass/a: alias "al2@v1.50.0" names no AMI`},
		},
		"an alias of Bottlerocket with a date": {
			strings.Replace(class("a"), "al2023@latest", "bottlerocket@v20260625", 1),
			[]string{`a.yaml:7: EC2NodeClass/a: alias "bottlerocket@v20260625" names no AMI: a version of bottlerocket is latest, or three numbers, such as v1.50.0`},
		},
		"user data of Bottlerocket that is a script": {
			strings.Replace(class("a"), "al2023@latest}]", "bottlerocket@latest}]\n  userData: |\n    #!/bin/bash\n    echo hello", 1),
			[]string{`a.yaml:8: EC2NodeClass/a: spec.userData is not TOML, as Bottlerocket requires: expected '=' after key in its line 2`},
		},
		"user data of Bottlerocket with a setting twice": {
			strings.Replace(class("a"), "al2023@latest}]", "bottlerocket@latest}]\n  userData: |\n    [settings.motd]\n    a = 1\n    a = 2", 1),
			[]string{`a.yaml:8: EC2NodeClass/a: spec.userData is not TOML, as Bottlerocket requires: `},
		},
		"a tag that is reserved": {
			strings.Replace(class("a"), "al2023@latest}]", "al2023@latest}]\n  tags: {team: web, plumbline.dev/keep: ''}", 1),
			[]string{`a.yaml:8: EC2NodeClass/a: the tag plumbline.dev/keep is reserved: `},
		},
		"a category that nothing is of": {
			strings.Replace(pool("a"), "requirements: []", "requirements:\n        - {key: karpenter.k8s.aws/instance-category, operator: In, values: [zz]}", 1),
			[]string{`a.yaml:10: NodePool/a: no instance type has karpenter.k8s.aws/instance-category in [zz]: the known values are a, c, `},
		},
		"an architecture that nothing is of": {
			strings.Replace(pool("a"), "requirements: []", "requirements:\n        - {key: kubernetes.io/arch, operator: In, values: [x86_64, s390x]}", 1),
			[]string{`a.yaml:10: NodePool/a: no instance type has kubernetes.io/arch in [x86_64, s390x]: the known values are amd64, arm64`},
		},
		"a quantity of many digits": {
			strings.Replace(pool("a"), "requirements: []", "requirements: []\n  limits:\n    cpu: 10\n    memory: "+strings.Repeat("9", 900_000), 1),
			[]string{`a.yaml:12: NodePool/a: spec.limits.memory: a quantity has no more than 64 characters, and this one has 900000`},
		},
		"a quantity with a large exponent": {
			strings.Replace(pool("a"), "requirements: []", "requirements: []\n  limits: {cpu: '1e1000000000'}", 1),
			[]string{`a.yaml:10: NodePool/a: spec.limits.cpu: the exponent of a quantity is at most 99, and this one is "1e1000000000"`},
		},
		"a duration that is too long": {
			strings.Replace(pool("a"), "requirements: []", "requirements: []\n      expireAfter: 9999999999h", 1),
			[]string{`a.yaml:5: NodePool/a: Karpenter cannot read it: time: invalid duration "9999999999h"`},
		},
		"the duration of a budget that is too long": {
			strings.Replace(pool("a"), "requirements: []", "requirements: []\n  disruption:\n    consolidateAfter: 0s\n    budgets: [{nodes: 10%, schedule: '@daily', duration: 9999999999h}]", 1),
			[]string{`a.yaml:5: NodePool/a: Karpenter cannot read it: time: invalid duration "9999999999h"`},
		},
		"more pods than a number holds": {
			strings.Replace(class("a"), "spec:\n", "spec:\n  kubelet: {maxPods: 4294967297}\n", 1),
			[]string{"a.yaml:6: EC2NodeClass/a: spec.kubelet.maxPods: it must be of type int32, not number 4294967297"},
		},
		"a name that is no label": {
			pool(strings.Repeat("n", 64)),
			[]string{"a.yaml:4: NodePool/" + strings.Repeat("n", 64) + ": the name has 64 characters, and no more than 63"},
		},
		"a class' name that is no label": {
			class(strings.Repeat("n", 64)),
			[]string{"a.yaml:4: EC2NodeClass/" + strings.Repeat("n", 64) + ": the name has 64 characters, and no more than 63"},
		},
		"EKS Auto Mode": {
			strings.Replace(pool("a"), "group: karpenter.k8s.aws, kind: EC2NodeClass", "group: eks.amazonaws.com, kind: NodeClass", 1),
			[]string{"a.yaml:8: NodePool/a is a pool of EKS Auto Mode"},
		},
		"a class of another provider": {
			strings.Replace(pool("a"), "group: karpenter.k8s.aws", "group: karpenter.azure.com", 1),
			[]string{"a.yaml:8: NodePool/a: nodeClassRef.group is karpenter.azure.com"},
		},
		"a copy of a rescue": {
			strings.Replace(class("a"), "  name: a\n", "  name: a\n  annotations: {plumbline.dev/rescues: default}\n", 1),
			[]string{"a.yaml:5: the annotation plumbline.dev/rescues was copied out of a cluster: leave it out"},
		},
		"a Helm template": {"{{- if .Values.pools }}\n" + pool("a") + "{{- end }}\n", []string{"a.yaml:1: it looks like a Helm template"}},
		"by a rule":       {strings.Replace(pool("a"), "name: default}", "name: ''}", 1), []string{`a.yaml:8: NodePool/a: spec.template.spec.nodeClassRef.name: Invalid value: "": name may not be empty`}},
		"a bad name":      {pool("Not_A_Name"), []string{`a.yaml:4: NodePool/Not_A_Name: metadata.name: Invalid value: "Not_A_Name"`}},
		"twice":           {pool("a") + "---\n" + class("a") + "---\n" + pool("a"), []string{"a.yaml:21: NodePool/a is defined twice, first in a.yaml:1"}},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := renderAll(t, folder(map[string]string{"plumbline.yaml": plumblineYAML, "a.yaml": tc.text}), ".", embedded(t))
			expectErrors(t, err, tc.want)
		})
	}
}

// TestLongTextsAreCheap: parsing a text of the maximum length takes little time, and the message about it is short.
func TestLongTextsAreCheap(t *testing.T) {
	digits := strings.Repeat("9", 900_000)
	in := func(field string) string {
		return strings.Replace(pool("a"), "requirements: []", "requirements: []\n  "+field, 1)
	}
	budget := func(field string) string {
		return in("disruption:\n    consolidateAfter: 0s\n    budgets: [{nodes: 10%, " + field + "}]")
	}
	requirement := func(rest string) string {
		return strings.Replace(pool("a"), "requirements: []", "requirements: [{key: "+rest+"}]", 1)
	}
	kubelet := func(field string) string {
		return strings.Replace(class("a"), "spec:\n", "spec:\n  kubelet: {"+field+"}\n", 1)
	}
	for name, text := range map[string]string{
		"a quantity":                in("limits: {cpu: " + digits + "}"),
		"a fraction":                in("limits: {cpu: 0." + digits + "}"),
		"a quantity as text":        in("limits: {cpu: '" + digits + "'}"),
		"what is reserved":          kubelet("kubeReserved: {cpu: '" + digits + "'}"),
		"a size":                    strings.Replace(class("a"), "spec:\n", "spec:\n  blockDeviceMappings: [{deviceName: a, ebs: {volumeSize: "+digits+"Gi}}]\n", 1),
		"a whole number":            in("weight: " + digits),
		"an exponent":               in("weight: 1e" + digits),
		"a hexadecimal number":      in("weight: 0x" + digits),
		"a float by its tag":        in("weight: !!float " + digits),
		"a number by its tag":       in("weight: !!int " + digits),
		"a date":                    in("weight: !!timestamp " + digits),
		"a percentage":              budget("reasons: [], nodes: " + digits + "%"),
		"a duration":                in("disruption: {consolidateAfter: " + strings.Repeat("9h", 450_000) + "}"),
		"the duration of a budget":  budget("schedule: '@daily', duration: " + digits + "h"),
		"a cron schedule of digits": budget("duration: 1h, schedule: '" + digits + " * * * *'"),
		"a cron schedule of ranges": budget("duration: 1h, schedule: '" + strings.Repeat("0-59/1,", 120_000) + "0 * * * *'"),
		"a time zone":               budget("duration: 1h, schedule: 'TZ=" + digits + " * * * * *'"),
		"a bound":                   requirement("karpenter.k8s.aws/instance-cpu, operator: Gt, values: ['" + digits + "']"),
		"a CIDR":                    kubelet("clusterDNS: ['" + digits + ".0.0.0/8']"),
		"a label":                   requirement("kubernetes.io/arch, operator: In, values: ['" + digits + "']"),
		"a variable":                in("weight: ${" + strings.Repeat("A", 900_000) + "}"),
		"a name":                    pool(strings.Repeat("n", 900_000)),
		"a kind":                    "apiVersion: v1\nkind: " + digits + "\n",
	} {
		t.Run(name, func(t *testing.T) {
			validator := embedded(t)
			began := time.Now()
			_, err := renderAll(t, folder(map[string]string{"plumbline.yaml": plumblineYAML, "a.yaml": text}), ".", validator)
			if took := time.Since(began); took > 3*time.Second {
				t.Errorf("it took %s", took)
			}
			if err != nil && len(err.Error()) > 16<<10 {
				t.Errorf("the error has %d characters: %.200s…", len(err.Error()), err.Error())
			}
		})
	}
}

func TestAllErrorsAtOnce(t *testing.T) {
	files := map[string]string{
		"plumbline.yaml":         plumblineYAML,
		"a/broken.yaml":          "a: [\n",
		"b/foreign.yaml":         "apiVersion: v1\nkind: Pod\nmetadata: {name: x}\n",
		"c/unknown.yaml":         strings.Replace(pool("c"), "requirements: []", "requirements: []\n  oops: ${MISSING}", 1),
		"d/kustomization.yaml":   "helmCharts: [{name: x}]\nresources: ['https://example.com/x']\n",
		"e/good.yaml":            pool("same"),
		"f/good.yaml":            pool("same"),
		"g/kustomization.yaml":   "resources: [x.yaml]\n",
		"g/x.yaml":               strings.Replace(pool("g"), "requirements: []", "requirements: []\n  oops: 1", 1),
		"h/too-large.yaml":       "# " + strings.Repeat("x", 1<<20),
		"i/not-json.json":        "{\n\"a\": }",
		"j/several-of-them.yaml": strings.ReplaceAll(pool("a")+"---\n"+pool("b"), "requirements: []", "requirement: []"),
	}
	_, err := renderAll(t, folder(files), ".", embedded(t))
	expectErrors(t, err, []string{
		"a/broken.yaml:1: not YAML",
		"b/foreign.yaml:2: Pod (v1) is refused",
		"c/unknown.yaml:10: ${MISSING} is not known",
		"d/kustomization.yaml:1: helmCharts: a render runs no plugin and no chart",
		`d/kustomization.yaml:2: resources[0]: "https://example.com/x" is not in this repository`,
		"f/good.yaml:1: NodePool/same is defined twice, first in e/good.yaml:1",
		"g/x.yaml:10: NodePool/g: spec.oops: Forbidden: unknown field",
		"h/too-large.yaml: it is larger than 1048576 bytes",
		"i/not-json.json:2: not JSON",
		"j/several-of-them.yaml:7: NodePool/a: spec.template.spec.requirements: Required value",
		"j/several-of-them.yaml:9: NodePool/a: spec.template.spec.requirement: Forbidden: unknown field",
		"j/several-of-them.yaml:17: NodePool/b: spec.template.spec.requirements: Required value",
		"j/several-of-them.yaml:19: NodePool/b: spec.template.spec.requirement: Forbidden: unknown field",
	})
	first, _, _ := strings.Cut(err.Error(), "\n")
	if len([]rune(first)) > 140 || !strings.HasSuffix(first, " (and 12 more)") {
		t.Errorf("the first line is no commit status: %q", first)
	}
	if lines := strings.Count(err.Error(), "\n"); lines != 13 {
		t.Errorf("%d lines after the first, want 13:\n%v", lines, err)
	}
	var one render.Error
	if !errors.As(fmt.Errorf("render: %w", err), &one) || one.File != "a/broken.yaml" {
		t.Errorf("errors.As finds %v", one)
	}
}

func TestErrorsInOneLine(t *testing.T) {
	for name, tc := range map[string]struct {
		errs render.Errors
		want string
	}{
		"short":     {render.Errors{{File: "a", Line: 1, Message: "b"}}, "a:1: b"},
		"no line":   {render.Errors{{File: "a", Message: "b"}}, "a: b"},
		"many":      {render.Errors{{File: "a", Line: 1, Message: "b"}, {File: "c", Message: "d"}}, "a:1: b (and 1 more)\na:1: b\nc: d"},
		"long":      {render.Errors{{File: "a", Message: strings.Repeat("é", 200)}}, "a: " + strings.Repeat("é", 106) + "…\na: " + strings.Repeat("é", 200)},
		"two lines": {render.Errors{{File: "a", Message: "b\nc"}}, `a: b\nc`},
		"the same in many files": {
			render.Errors{{File: "a", Line: 2, Message: "refused"}, {File: "b", Line: 2, Message: "refused"}, {File: "c", Line: 3, Message: "odd"}, {File: "d", Line: 2, Message: "refused"}},
			"c:3: odd (and 3 more)\nc:3: odd\na:2: refused (and in 2 other places)",
		},
		"the same in two": {render.Errors{{File: "a", Message: "b"}, {File: "c", Message: "b"}}, "a: b (and 1 more)\na: b\nc: b"},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, tc.errs.Error()); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestEmpty(t *testing.T) {
	for name, files := range map[string]map[string]string{
		"nothing":    {"a/plumbline.yaml": plumblineYAML},
		"no objects": {"a/plumbline.yaml": plumblineYAML, "a/README.md": "x", "a/b.yaml": "# nothing\n"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := renderAll(t, folder(files), "./a", nil)
			var empty *render.EmptyError
			if !errors.As(err, &empty) || empty.Path != "./a" {
				t.Errorf("error %v, want *EmptyError of ./a", err)
			}
		})
	}
}
