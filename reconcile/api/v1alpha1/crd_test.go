package v1alpha1_test

import (
	"bytes"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/yaml"

	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/render/schema"
)

func readCRD(t *testing.T) *apiextensionsv1.CustomResourceDefinition {
	t.Helper()
	raw, err := os.ReadFile("../../../manifests/crd/plumbline.dev_nodesyncs.yaml")
	if err != nil {
		t.Fatal(err)
	}
	crd := &apiextensionsv1.CustomResourceDefinition{}
	if err := yaml.UnmarshalStrict(raw, crd); err != nil {
		t.Fatal(err)
	}
	apiextensionsv1.SetDefaults_CustomResourceDefinitionSpec(&crd.Spec)
	return crd
}

// TestCRDIsValid validates the CRD as the API server does, including the cost of its expressions.
func TestCRDIsValid(t *testing.T) {
	internal := &apiextensions.CustomResourceDefinition{}
	if err := apiextensionsv1.Convert_v1_CustomResourceDefinition_To_apiextensions_CustomResourceDefinition(readCRD(t), internal, nil); err != nil {
		t.Fatal(err)
	}
	internal.Status.StoredVersions = []string{"v1alpha1"}
	for _, problem := range validation.ValidateCustomResourceDefinition(t.Context(), internal) {
		t.Error(problem)
	}
}

func newValidator(t *testing.T) *schema.Validator {
	t.Helper()
	v, err := schema.New([]*apiextensionsv1.CustomResourceDefinition{readCRD(t)})
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// nodeSync returns a NodeSync with a spec, given as YAML.
func nodeSync(t *testing.T, spec string) *unstructured.Unstructured {
	t.Helper()
	raw, err := yaml.YAMLToJSON([]byte("apiVersion: plumbline.dev/v1alpha1\nkind: NodeSync\nmetadata: {name: a, namespace: plumbline-system}\nspec: " + spec))
	if err != nil {
		t.Fatalf("%s: %v", spec, err)
	}
	u := &unstructured.Unstructured{}
	if err := u.UnmarshalJSON(raw); err != nil {
		t.Fatalf("%s: %v", spec, err)
	}
	return u
}

const git = `{git: {url: "https://git.example.com/acme/fleet.git"}}`

func TestAccepted(t *testing.T) {
	v := newValidator(t)
	for name, spec := range map[string]string{
		"least":        `{source: ` + git + `}`,
		"http":         `{source: {git: {url: "http://127.0.0.1:3000/a/b"}}}`,
		"ssh":          `{source: {git: {url: "ssh://git@git.example.com/a/b"}}}`,
		"every ref":    `{source: {git: {url: "https://h/r", ref: {branch: b, tag: t, semver: ">=1", name: refs/pull/1/head, commit: "` + strings.Repeat("0", 40) + `"}}}}`,
		"empty ref":    `{source: {git: {url: "https://h/r", ref: {}}}}`,
		"signatures":   `{source: {git: {url: "https://h/r", verify: {secretRef: {name: a}}}}, charts: {verify: {secretRef: {name: b}}}}`,
		"every commit": `{source: {git: {url: "https://h/r", ref: {branch: b}, verify: {mode: Range, secretRef: {name: a}}}}}`,
		"a signed tag": `{source: {git: {url: "https://h/r", ref: {tag: v1}, verify: {mode: Tag, secretRef: {name: a}}}}}`,
		"signed tags":  `{source: {git: {url: "https://h/r", ref: {branch: b, semver: ">=1", name: ""}, verify: {mode: Tag, secretRef: {name: a}}}}}`,
		"a tag's name": `{source: {git: {url: "https://h/r", ref: {name: refs/tags/v1}, verify: {mode: Tag, secretRef: {name: a}}}}}`,
		"path":         `{source: ` + git + `, path: ./clusters/prod}`,
		"a ring":       `{source: ` + git + `, promotion: {cluster: eu, ring: prod, minSoak: 2h, signingKey: {name: key}, clusters: [{name: eu, keys: [ssh-ed25519 AAAA eu]}, {name: us, nodeSync: gpu, keys: [ssh-ed25519 AAAA, ecdsa-sha2-nistp256 AAAA]}]}}`,
		"pull requests": `{source: ` + git + `, report: [{provider: gitlab, secretRef: {name: a}, pullRequests: {comment: true}}, {provider: azuredevops, secretRef: {name: a}, url: "https://h/r", pullRequests: {forks: true}},
		             {provider: bitbucket, secretRef: {name: a}, url: "https://h/r", pullRequests: {forks: false}}, {provider: bitbucketserver, secretRef: {name: a}, url: "https://h/r", pullRequests: {forks: true}}]}`,
		"dotted names":  `{source: ` + git + `, path: a..b/.c}`,
		"durations":     `{source: ` + git + `, interval: 1h30m, retryInterval: 1.5s, timeout: 1000ms, removal: {stallAfter: 10s}}`,
		"a pace":        `{source: ` + git + `, removal: {strategy: Paced, grace: 0s, maxUnavailable: 3}}`,
		"a percentage":  `{source: ` + git + `, removal: {maxUnavailable: 100%}}`,
		"at once":       `{source: ` + git + `, removal: {strategy: AtOnce}}`,
		"nobody leaves": `{source: ` + git + `, guard: {maxRemovedPools: 0}}`,
		"every choice":  `{source: ` + git + `, adopt: Never, drift: Report, onDelete: Drain, suspend: true, guard: {allowLastPool: true}}`,
		"a calendar": `{source: ` + git + `, guard: {windows: [{schedule: "0 22 * * mon-fri", duration: 6h30m, timeZone: Europe/Berlin}, {schedule: "@weekly", duration: 744h}],
		             freeze: [{from: "2026-12-20", to: "2026-12-20", timeZone: Etc/GMT+1, reason: end of year}]}}`,
		"reports": `{source: ` + git + `, report: [{provider: github, secretRef: {name: a}}, {provider: gitlab, secretRef: {name: a}},
		             {provider: gitea, secretRef: {name: a}, url: "http://127.0.0.1:3000/a/b"}]}`,
		"more reports": `{source: ` + git + `, report: [{provider: forgejo, secretRef: {name: a}}, {provider: bitbucket, secretRef: {name: a}},
		             {provider: bitbucketserver, secretRef: {name: a}}, {provider: azuredevops, secretRef: {name: a}},
		             {provider: generic, secretRef: {name: a}, url: "https://h/hook?repository=fleet"}]}`,
		"registries": `{source: ` + git + `, charts: {registries: [{host: registry.example.com, secretRef: {name: a}}, {host: "10.0.0.1:5000", certSecretRef: {name: b}},
		             {host: "[fd00::1]:5000", secretRef: {name: a}, certSecretRef: {name: b}}]}}`,
	} {
		t.Run(name, func(t *testing.T) {
			for _, problem := range v.Validate(t.Context(), nodeSync(t, spec)) {
				t.Error(problem)
			}
		})
	}
}

func TestRefused(t *testing.T) {
	v := newValidator(t)
	reports := strings.Repeat(`{provider: gitea, secretRef: {name: a}},`, 9)
	cases := map[string]struct{ spec, want string }{
		"no source":        {`{}`, "spec.source: Required value"},
		"no git":           {`{source: {}}`, "set either git or sourceRef, not both"},
		"two sources":      {`{source: {git: {url: "https://git.example.com/a"}, sourceRef: {kind: Bucket, name: a}}}`, "set either git or sourceRef, not both"},
		"no kind of Flux":  {`{source: {sourceRef: {kind: HelmRepository, name: a}}}`, "spec.source.sourceRef.kind: Unsupported value"},
		"reports no URL":   {`{source: {sourceRef: {kind: GitRepository, name: a}}, report: [{provider: gitea, secretRef: {name: a}}]}`, "each report needs a url"},
		"no commits":       {`{source: {sourceRef: {kind: Bucket, name: a}}, report: [{provider: gitea, url: "https://git.example.com/a", secretRef: {name: a}}]}`, "the others have no commits"},
		"pulls of Flux":    {`{source: {sourceRef: {kind: GitRepository, name: a}}, report: [{provider: gitea, url: "https://git.example.com/a", secretRef: {name: a}, pullRequests: {}}]}`, "needs source.git"},
		"proposes to Flux": {`{source: {sourceRef: {kind: GitRepository, name: a}}, rollout: {onFailure: BrakeAndPropose}, report: [{provider: gitea, url: "https://git.example.com/a", secretRef: {name: a}}]}`, "that is a branch"},
		"no url":           {`{source: {git: {}}}`, "spec.source.git.url: Required value"},
		"file url":         {`{source: {git: {url: "file:///etc"}}}`, "spec.source.git.url: Invalid value"},
		"scp-like url":     {`{source: {git: {url: "git@git.example.com:a/b"}}}`, "spec.source.git.url: Invalid value"},
		"short commit":     {`{source: {git: {url: "https://h/r", ref: {commit: abc}}}}`, "spec.source.git.ref.commit: Invalid value"},
		"nameless secret":  {`{source: {git: {url: "https://h/r", secretRef: {}}}}`, "spec.source.git.secretRef.name: Required value"},
		"empty secret":     {`{source: {git: {url: "https://h/r", secretRef: {name: ""}}}}`, "spec.source.git.secretRef.name: Invalid value"},
		"signed by whom":   {`{source: {git: {url: "https://h/r", verify: {mode: HEAD}}}}`, "spec.source.git.verify.secretRef: Required value"},
		"signed how":       {`{source: {git: {url: "https://h/r", verify: {mode: Some, secretRef: {name: a}}}}}`, `spec.source.git.verify.mode: Unsupported value: "Some"`},
		"no tag":           {`{source: {git: {url: "https://h/r", verify: {mode: Tag, secretRef: {name: a}}}}}`, "verify.mode Tag needs a ref that is a tag"},
		"a branch":         {`{source: {git: {url: "https://h/r", ref: {tag: v1, name: refs/heads/b}, verify: {mode: Tag, secretRef: {name: a}}}}}`, "verify.mode Tag needs a ref that is a tag"},
		"a commit":         {`{source: {git: {url: "https://h/r", ref: {tag: v1, commit: "` + strings.Repeat("0", 40) + `"}, verify: {mode: Tag, secretRef: {name: a}}}}}`, "verify.mode Tag needs a ref that is a tag"},
		"charts by whom":   {`{source: ` + git + `, charts: {verify: {provider: cosign}}}`, "spec.charts.verify.secretRef: Required value"},
		"charts by what":   {`{source: ` + git + `, charts: {verify: {provider: notation, secretRef: {name: a}}}}`, `spec.charts.verify.provider: Unsupported value: "notation"`},
		"absolute path":    {`{source: ` + git + `, path: /etc}`, "path must be relative and may not contain '..'"},
		"path upwards":     {`{source: ` + git + `, path: ../other}`, "path must be relative and may not contain '..'"},
		"path up and down": {`{source: ` + git + `, path: a/../../b}`, "path must be relative and may not contain '..'"},
		"endless path":     {`{source: ` + git + `, path: "` + strings.Repeat("a", 1025) + `"}`, "spec.path: Too long"},
		"days":             {`{source: ` + git + `, interval: 1d}`, "spec.interval: Invalid value"},
		"no unit":          {`{source: ` + git + `, interval: "60"}`, "spec.interval: Invalid value"},
		"negative":         {`{source: ` + git + `, interval: -1m}`, "spec.interval: Invalid value"},
		"without a pause":  {`{source: ` + git + `, interval: 0s}`, "must be at least 1s"},
		"no pause to try":  {`{source: ` + git + `, retryInterval: 10ms}`, "must be at least 1s"},
		"no time at all":   {`{source: ` + git + `, timeout: 0s}`, "must be at least 1s"},
		"stall in words":   {`{source: ` + git + `, removal: {stallAfter: soon}}`, "spec.removal.stallAfter: Invalid value"},
		"no pace":          {`{source: ` + git + `, removal: {maxUnavailable: 0}}`, "must be a number from 1, or a percentage"},
		"pace in words":    {`{source: ` + git + `, removal: {maxUnavailable: some}}`, "must be a number from 1, or a percentage"},
		"more than all":    {`{source: ` + git + `, removal: {maxUnavailable: 101%}}`, "must be a number from 1, or a percentage"},
		"strategy":         {`{source: ` + git + `, removal: {strategy: Forget}}`, `spec.removal.strategy: Unsupported value: "Forget"`},
		"adopt":            {`{source: ` + git + `, adopt: Sometimes}`, `spec.adopt: Unsupported value: "Sometimes"`},
		"drift":            {`{source: ` + git + `, drift: Ignore}`, `spec.drift: Unsupported value: "Ignore"`},
		"onDelete":         {`{source: ` + git + `, onDelete: Delete}`, `spec.onDelete: Unsupported value: "Delete"`},
		"negative guard":   {`{source: ` + git + `, guard: {maxRemovedPools: -1}}`, "spec.guard.maxRemovedPools: Invalid value"},
		"guard in words":   {`{source: ` + git + `, guard: {maxRemovedPools: one}}`, "spec.guard.maxRemovedPools: Invalid value"},
		"no schedule":      {`{source: ` + git + `, guard: {windows: [{schedule: sometimes, duration: 1h}]}}`, "spec.guard.windows[0].schedule: Invalid value"},
		"no time":          {`{source: ` + git + `, guard: {windows: [{schedule: "@daily", duration: 0m}]}}`, "must be from 1m to 744h"},
		"an endless time":  {`{source: ` + git + `, guard: {windows: [{schedule: "@daily", duration: 745h}]}}`, "must be from 1m to 744h"},
		"seconds":          {`{source: ` + git + `, guard: {windows: [{schedule: "@daily", duration: 90s}]}}`, "spec.guard.windows[0].duration: Invalid value"},
		"a zone in words":  {`{source: ` + git + `, guard: {windows: [{schedule: "@daily", duration: 1h, timeZone: "Berlin, Germany"}]}}`, "spec.guard.windows[0].timeZone: Invalid value"},
		"no date":          {`{source: ` + git + `, guard: {freeze: [{from: "20.12.2026", to: "2026-12-27"}]}}`, "spec.guard.freeze[0].from: Invalid value"},
		"no last date":     {`{source: ` + git + `, guard: {freeze: [{from: "2026-12-20"}]}}`, "spec.guard.freeze[0].to: Required value"},
		"it ends before":   {`{source: ` + git + `, guard: {freeze: [{from: "2026-12-27", to: "2026-12-20"}]}}`, "to must not be before from"},
		"report's host":    {`{source: ` + git + `, report: [{provider: sourcehut, secretRef: {name: a}}]}`, `spec.report[0].provider: Unsupported value: "sourcehut"`},
		"report's secret":  {`{source: ` + git + `, report: [{provider: gitea}]}`, "spec.report[0].secretRef: Required value"},
		"report's url":     {`{source: ` + git + `, report: [{provider: gitea, secretRef: {name: a}, url: "ssh://h/r"}]}`, "spec.report[0].url: Invalid value"},
		"pull requests of": {`{source: ` + git + `, report: [{provider: generic, secretRef: {name: a}, url: "https://h", pullRequests: {}}]}`, "provider generic has no pull requests to follow"},
		"forks of":         {`{source: ` + git + `, report: [{provider: bitbucket, secretRef: {name: a}, pullRequests: {forks: true}}]}`, "pullRequests from forks cannot be followed on bitbucket"},
		"report to where":  {`{source: ` + git + `, report: [{provider: generic, secretRef: {name: a}}]}`, "provider generic needs the url that accepts the statuses"},
		"nine reports":     {`{source: ` + git + `, report: [` + reports + `]}`, "spec.report: Too many"},
		"a host's secret":  {`{source: ` + git + `, charts: {registries: [{host: h}]}}`, "set secretRef, certSecretRef or both"},
		"a host's URL":     {`{source: ` + git + `, charts: {registries: [{host: "https://h", secretRef: {name: a}}]}}`, "spec.charts.registries[0].host: Invalid value"},
		"a host's path":    {`{source: ` + git + `, charts: {registries: [{host: h/a, secretRef: {name: a}}]}}`, "spec.charts.registries[0].host: Invalid value"},
		"a host in caps":   {`{source: ` + git + `, charts: {registries: [{host: H, secretRef: {name: a}}]}}`, "spec.charts.registries[0].host: Invalid value"},
		"a host twice":     {`{source: ` + git + `, charts: {registries: [{host: h, secretRef: {name: a}}, {host: h, secretRef: {name: b}}]}}`, "spec.charts.registries[1]: Duplicate value"},
		"ring of a tag":    {`{source: {git: {url: "https://h/r", ref: {tag: v1}}}, promotion: {cluster: eu, ring: prod, signingKey: {name: key}, clusters: [{name: eu, keys: [ssh-ed25519 AAAA]}]}}`, "promotion needs a source.git.ref that is a branch"},
		"no keys":          {`{source: ` + git + `, promotion: {cluster: eu, ring: prod, signingKey: {name: key}, clusters: []}}`, "spec.promotion.clusters: Invalid value"},
		"a private key":    {`{source: ` + git + `, promotion: {cluster: eu, ring: prod, signingKey: {name: key}, clusters: [{name: eu, keys: ["-----BEGIN OPENSSH PRIVATE KEY-----"]}]}}`, "spec.promotion.clusters[0].keys[0]: Invalid value"},
		"unknown field":    {`{source: ` + git + `, prune: true}`, "unknown field"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			problems := v.Validate(t.Context(), nodeSync(t, c.spec)).ToAggregate()
			if problems == nil || !strings.Contains(problems.Error(), c.want) {
				t.Errorf("problems: %v\nwant one that says %q", problems, c.want)
			}
		})
	}
}

func TestDefaults(t *testing.T) {
	object := nodeSync(t, `{source: `+git+`}`)
	newValidator(t).Default(object)
	got := &v1alpha1.NodeSync{}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, got); err != nil {
		t.Fatal(err)
	}
	one, percent, quarter := int32(1), intstr.FromString("10%"), intstr.FromString("25%")
	want := v1alpha1.NodeSyncSpec{
		Interval: metav1.Duration{Duration: time.Minute},
		Timeout:  &metav1.Duration{Duration: 2 * time.Minute},
		Source:   v1alpha1.Source{Git: &v1alpha1.GitSource{URL: "https://git.example.com/acme/fleet.git"}},
		Path:     "./",
		Adopt:    v1alpha1.AdoptIfIdentical,
		Drift:    v1alpha1.DriftCorrect,
		Removal: v1alpha1.RemovalPolicy{
			Strategy: v1alpha1.RemovalPaced, Grace: &metav1.Duration{Duration: 30 * time.Second}, MaxUnavailable: &percent,
			StallAfter: &metav1.Duration{Duration: 15 * time.Minute},
		},
		Guard: v1alpha1.Guard{
			MaxRemovedPools: &one, RemovalPeriod: &metav1.Duration{Duration: 30 * time.Minute}, MaxDisruptedNodes: &quarter, Approvals: &one,
			IntolerantDaemonSets: v1alpha1.IntolerantDaemonSetsWarn, UnschedulablePods: v1alpha1.UnschedulablePodsHold, ApproveFrom: v1alpha1.ApproveFromCluster, OnIdentityConflict: v1alpha1.IdentityConflictFreeze,
		},
		OnDelete: v1alpha1.OnDeleteOrphan,
	}
	if diff := cmp.Diff(want, got.Spec); diff != "" {
		t.Errorf("defaults:\n%s", diff)
	}
}

func TestShape(t *testing.T) {
	crd := readCRD(t)
	if crd.Spec.Scope != apiextensionsv1.NamespaceScoped || crd.Annotations["helm.sh/resource-policy"] != "keep" {
		t.Errorf("scope %s, annotations %v", crd.Spec.Scope, crd.Annotations)
	}
	if diff := cmp.Diff([]string{"nsync", "nsyncs"}, crd.Spec.Names.ShortNames); diff != "" {
		t.Error(diff)
	}
	version := crd.Spec.Versions[0]
	if version.Subresources == nil || version.Subresources.Status == nil {
		t.Error("status is no subresource")
	}
}

// TestColumns shows which columns `kubectl get nodesync` prints, in which order.
func TestColumns(t *testing.T) {
	var names, wide []string
	for _, column := range readCRD(t).Spec.Versions[0].AdditionalPrinterColumns {
		if column.Priority == 0 {
			names = append(names, column.Name)
		} else {
			wide = append(wide, column.Name)
		}
	}
	if diff := cmp.Diff([]string{"Ready", "Status", "Revision", "Waiting", "Removals", "Age", "Message"}, names); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]string{"Karpenter", "Suspended"}, wide); diff != "" {
		t.Error(diff)
	}
}

// TestANewNodeSyncIsOfNoGeneration shows that a new NodeSync has observedGeneration -1: kstatus would report one
// without conditions as ready.
func TestANewNodeSyncIsOfNoGeneration(t *testing.T) {
	status := readCRD(t).Spec.Versions[0].Schema.OpenAPIV3Schema.Properties["status"]
	if status.Default == nil || string(status.Default.Raw) != `{"observedGeneration":-1}` {
		t.Errorf("its default is %v", status.Default)
	}
}

// TestEachConditionIsInTheSpec shows that manifests/SPEC.md lists each condition, as the description of
// status.conditions says.
func TestEachConditionIsInTheSpec(t *testing.T) {
	source, err := os.ReadFile("conditions.go")
	if err != nil {
		t.Fatal(err)
	}
	spec, err := os.ReadFile("../../../manifests/SPEC.md")
	if err != nil {
		t.Fatal(err)
	}
	kinds := regexp.MustCompile(`(?m)^\t\w+Condition += "(\w+)"$`).FindAllStringSubmatch(string(source), -1)
	if len(kinds) < 11 {
		t.Fatalf("found %v only", kinds)
	}
	for _, kind := range kinds {
		if !bytes.Contains(spec, []byte("`"+kind[1]+"`")) {
			t.Errorf("%s is not in manifests/SPEC.md", kind[1])
		}
	}
	described := readCRD(t).Spec.Versions[0].Schema.OpenAPIV3Schema.Properties["status"].Properties["conditions"].Description
	if !strings.Contains(described, "manifests/SPEC.md") {
		t.Errorf("the description of status.conditions does not lead to manifests/SPEC.md: %q", described)
	}
}
