package render_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/plumbline-dev/plumbline/render"
)

func TestReadKarpenter(t *testing.T) {
	head := "apiVersion: config.plumbline.dev/v1alpha1\nkind: Karpenter\ncluster: {name: demo, region: eu-west-1}\n"
	for name, tc := range map[string]struct {
		text string
		want render.Karpenter
	}{
		"defaults": {head + "version: 1.14.1\n", render.Karpenter{
			Management: render.Managed, Version: "1.14.1", Repository: "oci://public.ecr.aws/karpenter", Namespace: "kube-system", Nodes: []string{"."},
		}},
		"external": {head + "management: External\n", render.Karpenter{Management: render.External, Namespace: "kube-system", Nodes: []string{"."}}},
		"external of a version": {head + "management: External\nversion: 1.14.1\n", render.Karpenter{
			Management: render.External, Version: "1.14.1", Repository: "oci://public.ecr.aws/karpenter", Namespace: "kube-system", Nodes: []string{"."},
		}},
		"all": {head + "management: Managed\nversion: 1.14.1-rc.1\nrepository: oci://127.0.0.1:5000/karpenter\nnamespace: karpenter\n" +
			"values: {replicas: 2, settings: {clusterName: demo}}\nnodes: [./nodes, a/b.yaml]\nsubstitute: {TEAM: data}\n", render.Karpenter{
			Management: render.Managed, Version: "1.14.1-rc.1", Repository: "oci://127.0.0.1:5000/karpenter", Namespace: "karpenter",
			Values: map[string]any{"replicas": int64(2), "settings": map[string]any{"clusterName": "demo"}},
			Nodes:  []string{"./nodes", "a/b.yaml"}, Substitute: map[string]string{"TEAM": "data"},
		}},
	} {
		t.Run(name, func(t *testing.T) {
			tc.want.APIVersion, tc.want.Kind = render.ConfigAPIVersion, render.ConfigKind
			tc.want.Cluster = render.Cluster{Name: "demo", Region: "eu-west-1"}
			for _, path := range []string{"clusters/a", "./clusters/a/", "/clusters/a"} {
				got, err := render.ReadKarpenter(folder(map[string]string{"clusters/a/plumbline.yaml": tc.text}), path)
				if err != nil {
					t.Fatal(err)
				}
				if diff := cmp.Diff(&tc.want, got); diff != "" {
					t.Errorf("%s (-want +got):\n%s", path, diff)
				}
			}
		})
	}
}

func TestReadKarpenterRefuses(t *testing.T) {
	head := "apiVersion: config.plumbline.dev/v1alpha1\nkind: Karpenter\ncluster:\n  name: demo\n  region: eu-west-1\nversion: 1.14.1\n"
	for name, tc := range map[string]struct {
		text string
		want []string
	}{
		"empty":            {"", []string{"a/plumbline.yaml: it holds 0 documents"}},
		"two documents":    {head + "---\n" + head, []string{"a/plumbline.yaml: it holds 2 documents"}},
		"malformed":        {head + "nodes: [\n", []string{"a/plumbline.yaml:7: not YAML"}},
		"not an object":    {"- a\n", []string{"a/plumbline.yaml:1: "}},
		"unknown fields":   {head + "node: [x]\nclusters: 1\n", []string{`a/plumbline.yaml:7: unknown field "node"`, `a/plumbline.yaml:8: unknown field "clusters"`}},
		"a field twice":    {head + "version: 1.14.2\n", []string{`a/plumbline.yaml:7: key "version" is written twice, first in line 6`}},
		"a wrong type":     {strings.Replace(head, "name: demo", "name: [demo]", 1), []string{"a/plumbline.yaml:4: cluster.name must be of type string, not array"}},
		"another kind":     {strings.Replace(head, "kind: Karpenter", "kind: NodeSync", 1), []string{`a/plumbline.yaml:2: kind is "NodeSync"`}},
		"another version":  {strings.Replace(head, "v1alpha1", "v2", 1), []string{`a/plumbline.yaml:1: apiVersion is "config.plumbline.dev/v2"`}},
		"no cluster":       {"apiVersion: config.plumbline.dev/v1alpha1\nkind: Karpenter\nversion: 1.14.1\n", []string{`a/plumbline.yaml:1: cluster.name is ""`, `a/plumbline.yaml:1: cluster.region is ""`}},
		"no region":        {strings.Replace(head, "  region: eu-west-1\n", "", 1), []string{`a/plumbline.yaml:3: cluster.region is ""`}},
		"a zone":           {strings.Replace(head, "region: eu-west-1", "region: eu-west-1a", 1), []string{`a/plumbline.yaml:5: cluster.region is "eu-west-1a": give the AWS region of the cluster, such as eu-west-1`}},
		"a v":              {strings.Replace(head, "1.14.1", "v1.14.1", 1), []string{`a/plumbline.yaml:6: version is "v1.14.1"`}},
		"a range":          {strings.Replace(head, "1.14.1", "1.14.x", 1), []string{`a/plumbline.yaml:6: version is "1.14.x"`}},
		"two numbers":      {strings.Replace(head, "1.14.1", `"1.14"`, 1), []string{`a/plumbline.yaml:6: version is "1.14"`}},
		"a number":         {strings.Replace(head, "1.14.1", "1.14", 1), []string{"a/plumbline.yaml:6: version must be of type string, not number"}},
		"no text":          {head + "substitute:\n  A: x\n  W: 10\n  L: [a]\n", []string{"a/plumbline.yaml:9: substitute.W must be text: write '10' in quotes", "a/plumbline.yaml:10: substitute.L must be text: write '[\"a\"]' in quotes"}},
		"no version":       {strings.Replace(head, "version: 1.14.1\n", "", 1), []string{`a/plumbline.yaml:1: version is ""`}},
		"other management": {head + "management: Yours\n", []string{`a/plumbline.yaml:7: management is "Yours"`}},
		"external": {strings.Replace(head, "version: 1.14.1\n", "", 1) + "management: External\nrepository: oci://x/y\ndigests: {karpenter: 'sha256:abc'}\nvalues: {a: 1}\n", []string{
			"a/plumbline.yaml:7: repository is for charts", "a/plumbline.yaml:8: digests is for charts", "a/plumbline.yaml:9: values cannot be given with management External",
		}},
		"external, of a range": {strings.Replace(head, "1.14.1", "1.14.x", 1) + "management: External\n", []string{`a/plumbline.yaml:6: version is "1.14.x": give the one full version to wait for`}},
		"no scheme":            {head + "repository: public.ecr.aws/karpenter\n", []string{"a/plumbline.yaml:7: repository is \"public.ecr.aws/karpenter\": give an OCI registry"}},
		"absolute":             {head + "repository: /charts\n", []string{"a/plumbline.yaml:7: repository is \"/charts\": give an OCI registry"}},
		"charts outside":       {head + "repository: ./../../charts\n", []string{"a/plumbline.yaml:7: repository \"./../../charts\" leads out of the Git repository"}},
		"a short pin":          {head + "digests: {karpenter: 'sha256:abc'}\n", []string{"a/plumbline.yaml:7: digests.karpenter is \"sha256:abc\", but must be sha256: and 64"}},
		"a pin of what?":       {head + "digests: {controller: 'sha256:abc'}\n", []string{"a/plumbline.yaml:7: unknown field \"digests.controller\""}},
		"another name":         {head + "values:\n  settings:\n    clusterName: other\n", []string{"a/plumbline.yaml:9: values.settings.clusterName is \"other\" and cluster.name is \"demo\""}},
		"another region":       {head + "values:\n  controller:\n    env:\n      - name: AWS_REGION\n        value: us-east-1\n", []string{"a/plumbline.yaml:10: values.controller.env[0] (AWS_REGION) is \"us-east-1\" and cluster.region is \"eu-west-1\""}},
		"outside":              {head + "nodes:\n  - ./nodes\n  - ../base\n  - /etc\n", []string{`a/plumbline.yaml:9: nodes entry "../base" is not below`, `a/plumbline.yaml:10: nodes entry "/etc" is not below`}},
		"substitute":           {head + "substitute:\n  CLUSTER_NAME: x\n  a-b: y\n", []string{"a/plumbline.yaml:8: substitute.CLUSTER_NAME is built in", "a/plumbline.yaml:9: substitute.a-b is not a name"}},
		"ignored by no field":  {head + "ignoreDifferences:\n- {kind: Role, managers: [a]}\n", []string{`a/plumbline.yaml:8: unknown field "ignoreDifferences[0].managers"`}},
		"ignored for nothing": {head + "ignoreDifferences:\n- {kind: Deploy, jsonPointers: [/spec/replicas]}\n- kind: Role\n- {kind: Role, jsonPointers: [rules, /spec]}\n" +
			"- {kind: CustomResourceDefinition, jsonPointers: [/spec/versions/0/schema]}\n- {kind: Role, managedFieldsManagers: ['']}\n", []string{
			`a/plumbline.yaml:8: ignoreDifferences[0].kind is "Deploy", and the charts make none: give one of ClusterRole, `,
			"a/plumbline.yaml:9: ignoreDifferences[1] ignores nothing: give jsonPointers, managedFieldsManagers or both",
			`a/plumbline.yaml:10: ignoreDifferences[2].jsonPointers[0] is "rules": give the path of a field`,
			`a/plumbline.yaml:10: ignoreDifferences[2].jsonPointers[1] is "/spec": give the path of a field`,
			`a/plumbline.yaml:11: ignoreDifferences[3].jsonPointers[0] is "/spec/versions/0/schema": a CRD whose schema`,
			"a/plumbline.yaml:12: ignoreDifferences[4].managedFieldsManagers[0] is empty",
		}},
		"approved": {head + "approve: [sha256:" + strings.Repeat("a", 64) + ", " + strings.Repeat("a2", 13) + ", sha256:1f0c9a3b7d21, " + strings.Repeat("a", 25) + ", yes]\n", []string{
			`a/plumbline.yaml:7: approve entry "aaaaaaaaaaaaaaaaaaaaaaaaa" is not the digest of a plan`,
			`a/plumbline.yaml:7: approve entry "sha256:1f0c9a3b7d21" is not the digest of a plan: copy all 26 characters that plumbline shows, or sha256: and 64 digits as in status.held.digest of the NodeSync`,
			`a/plumbline.yaml:7: approve entry "yes" is not the digest of a plan`,
		}},
		"approved for years": {head + "approve: [" + strings.Repeat("sha256:"+strings.Repeat("a", 64)+", ", 1000) + "]\n", []string{
			`a/plumbline.yaml:7: approve has 1000 digests, but at most 100 are allowed: remove those of what was done`,
		}},
		"untested": {head + "acceptUntested: [karpenter 1.16.0, karpenter 1.14.0+acme.3, kubernetes 1.38, 1.16.0, k8s 1.38, karpenter 1.16]\n", []string{
			`a/plumbline.yaml:7: acceptUntested entry "1.16.0" names no version: write karpenter 1.16.0 or kubernetes 1.38, as the message of what is held does`,
			`a/plumbline.yaml:7: acceptUntested entry "k8s 1.38" names no version: write karpenter 1.16.0 or kubernetes 1.38, as the message of what is held does`,
			`a/plumbline.yaml:7: acceptUntested entry "karpenter 1.16" names no version: write karpenter 1.16.0 or kubernetes 1.38, as the message of what is held does`,
		}},
		"unread":                    {head + "acceptUnread: ec2\n", []string{`a/plumbline.yaml:7: acceptUnread is "ec2", but must be iam`}},
		"unread, external":          {head + "management: External\nacceptUnread: iam\n", []string{"a/plumbline.yaml:8: acceptUnread cannot be given with management External"}},
		"ignored, of somebody else": {head + "management: External\nignoreDifferences: [{kind: Role, managedFieldsManagers: [a]}]\n", []string{"a/plumbline.yaml:8: ignoreDifferences cannot be given with management External"}},
		"namespace":                 {head + "namespace: Kube_System\n", []string{`a/plumbline.yaml:7: namespace "Kube_System"`}},
		"another queue":             {strings.Replace(head, "region:", "interruptionQueue: q\n  region:", 1) + "values: {settings: {interruptionQueue: p}}\n", []string{"a/plumbline.yaml:8: values.settings.interruptionQueue is \"p\" and cluster.interruptionQueue is \"q\""}},
		"another role": {strings.Replace(head, "region:", "controllerRole: arn:aws:iam::111122223333:role/k\n  region:", 1) + "values: {serviceAccount: {annotations: {eks.amazonaws.com/role-arn: x}}}\n", []string{
			"a/plumbline.yaml:8: values.serviceAccount.annotations.eks.amazonaws.com/role-arn is \"x\" and cluster.controllerRole is \"arn:aws:iam",
		}},
		"a queue's URL":        {strings.Replace(head, "region:", "interruptionQueue: https://sqs/q\n  region:", 1), []string{"a/plumbline.yaml:5: cluster.interruptionQueue is \"https://sqs/q\": give the name"}},
		"a role's name":        {strings.Replace(head, "region:", "controllerRole: k\n  region:", 1), []string{"a/plumbline.yaml:5: cluster.controllerRole is \"k\": give the ARN"}},
		"values out of it":     {head + "valuesFiles: [../../v.yaml]\n", []string{"a/plumbline.yaml:7: valuesFiles entry \"../../v.yaml\" leads out of the Git repository"}},
		"values in 33 files":   {head + "valuesFiles: [" + strings.Repeat("./v.yaml, ", 33) + "]\n", []string{"a/plumbline.yaml:7: valuesFiles has 33 entries: at most 32 are allowed"}},
		"values in 33 objects": {head + "valuesFrom: [" + strings.Repeat("{kind: Secret, name: s}, ", 33) + "]\n", []string{"a/plumbline.yaml:7: valuesFrom has 33 entries: at most 32 are allowed"}},
		"values of no path":    {head + "valuesFiles: [\"./v\\0\"]\n", []string{"a/plumbline.yaml:7: valuesFiles entry \"./v\\x00\" is no path"}},
		"nodes of no path":     {head + "nodes: [\"./n\\0\"]\n", []string{"a/plumbline.yaml:7: nodes entry \"./n\\x00\" is no path"}},
		"values of a Pod":      {head + "valuesFrom: [{kind: Pod, name: p}]\n", []string{"a/plumbline.yaml:7: valuesFrom[0].kind is \"Pod\", but must be ConfigMap or Secret"}},
		"a Secret for a name":  {head + `valuesFrom: [{kind: Secret, name: b, targetPath: "controller.env[0].name"}]` + "\n", []string{"a/plumbline.yaml:7: valuesFrom[0].targetPath is \"controller.env[0].name\": a Secret gives no element of a list its name"}},
		"and in other words":   {head + `valuesFrom: [{kind: Secret, name: b, targetPath: 'a[0].na\me'}]` + "\n", []string{"a/plumbline.yaml:7: valuesFrom[0].targetPath is \"a[0].na\\\\me\": a Secret gives no element of a list its name"}},
		"values of nobody":     {head + "valuesFrom: [{kind: Secret, name: A_b}]\n", []string{"a/plumbline.yaml:7: valuesFrom[0].name is \"A_b\""}},
		"values under ../":     {head + "valuesFrom: [{kind: Secret, name: b, valuesKey: ../x}]\n", []string{"a/plumbline.yaml:7: valuesFrom[0].valuesKey is \"../x\""}},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := render.ReadKarpenter(folder(map[string]string{"a/plumbline.yaml": tc.text}), "a")
			expectErrors(t, err, tc.want)
		})
	}
}

// expectErrors compares the beginnings of all errors, in order.
func expectErrors(t *testing.T, err error, want []string) {
	t.Helper()
	var errs render.Errors
	if !errors.As(err, &errs) {
		t.Fatalf("error %v of type %T, want render.Errors", err, err)
	}
	var got []string
	for i, one := range errs {
		text := one.Error()
		if i < len(want) && strings.HasPrefix(text, want[i]) {
			text = want[i]
		}
		got = append(got, text)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestReadKarpenterOfNothing(t *testing.T) {
	snap := folder(map[string]string{"a/nodes/pool.yaml": "x", "b": "x"})
	for path, file := range map[string]string{"a": "a/plumbline.yaml", "./gone/": "gone", "b": "b", "": "plumbline.yaml"} {
		_, err := render.ReadKarpenter(snap, path)
		var missing *render.MissingError
		if !errors.As(err, &missing) {
			t.Errorf("%q: error %v, want *MissingError", path, err)
			continue
		}
		if diff := cmp.Diff(&render.MissingError{Path: path, File: file}, missing); diff != "" {
			t.Errorf("%q (-want +got):\n%s", path, diff)
		}
	}
	if _, err := render.ReadKarpenter(snap, "../x"); err == nil || !strings.Contains(err.Error(), "../x: the path leads out of the repository") {
		t.Errorf("error %v", err)
	}
}

func FuzzReadKarpenter(f *testing.F) {
	f.Add([]byte(plumblineYAML))
	f.Add([]byte("apiVersion: config.plumbline.dev/v1alpha1\nkind: Karpenter\nvalues: {settings: 1, controller: {env: [1, {name: CLUSTER_NAME}]}}\nnodes: [..]\n"))
	f.Add([]byte(plumblineYAML + "\nvalues: {replicas: 99999999999999999999999, controller: {resources: {limits: {cpu: 1e1000000000}}}}\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		karpenter, err := render.ReadKarpenter(folder(map[string]string{"plumbline.yaml": string(data)}), ".")
		var errs render.Errors
		switch {
		case err == nil:
			if karpenter.Cluster.Name == "" || karpenter.Namespace == "" || len(karpenter.Nodes) == 0 {
				t.Fatalf("accepted: %+v", karpenter)
			}
		case len(data) > 1<<20:
		case !errors.As(err, &errs) || len(errs) == 0:
			t.Fatalf("an error of type %T: %v", err, err)
		}
	})
}
