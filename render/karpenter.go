package render

import (
	"encoding/base32"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path"
	"regexp"
	"slices"
	"strings"

	"github.com/Masterminds/semver/v3"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/plumbline-dev/plumbline/contradiction"
	"github.com/plumbline-dev/plumbline/internal/sops"
	"github.com/plumbline-dev/plumbline/render/document"
)

// Karpenter is plumbline.yaml: config.plumbline.dev/v1alpha1, kind Karpenter.
type Karpenter struct {
	APIVersion string  `json:"apiVersion"`
	Kind       string  `json:"kind"`
	Cluster    Cluster `json:"cluster"`
	// Management decides who installs the charts. Default: Managed.
	Management Management `json:"management,omitempty"`
	// Version of both charts, a full semantic version without a range. With management External, the version to wait
	// for; default: any.
	Version string `json:"version,omitempty"`
	// Repository holds both charts: oci://…, the https:// URL of a Helm repository, or a path from the folder of
	// plumbline.yaml that starts with ./ or ../; default oci://public.ecr.aws/karpenter.
	Repository string `json:"repository,omitempty"`
	// Digests pin the charts. Default: any content is accepted.
	Digests Digests `json:"digests,omitzero"`
	// Adopt reports whether to adopt what another tool has installed of Karpenter. Default: it is refused.
	Adopt bool `json:"adopt,omitempty"`
	// AcceptUntested are versions newer than those plumbline knows, and forks of Karpenter, that may be installed, or run
	// on, anyway: "karpenter 1.16.0", "karpenter 1.14.0+acme.3", "kubernetes 1.38". Default: such a change of the charts is
	// held.
	AcceptUntested []string `json:"acceptUntested,omitempty"`
	// AcceptUnread is what may be unknown when an upgrade of Karpenter starts. iam: whether the role of its controller
	// allows what the version needs. Default: such an upgrade is held.
	AcceptUnread Unread `json:"acceptUnread,omitempty"`
	// Namespace of the controller. Default: kube-system.
	Namespace string `json:"namespace,omitempty"`
	// ValuesFrom are ConfigMaps and Secrets in the NodeSync's namespace that hold values of the main chart. Each is
	// merged over the ones before it.
	ValuesFrom []ValuesFrom `json:"valuesFrom,omitempty"`
	// ValuesFiles hold values of the main chart, as paths from the folder of plumbline.yaml. They are merged over
	// ValuesFrom, in order.
	ValuesFiles []string `json:"valuesFiles,omitempty"`
	// Values of the main chart, merged over all others. Null removes a default.
	Values map[string]any `json:"values,omitempty"`
	// IgnoreDifferences are fields of the charts' objects that other tools own.
	IgnoreDifferences []IgnoreDifference `json:"ignoreDifferences,omitempty"`
	// Nodes are the files and folders with definitions, from the folder of plumbline.yaml. Default: that folder itself.
	Nodes []string `json:"nodes,omitempty"`
	// IgnoreKinds are kinds of other tools, as Kind or Kind.group, whose objects may be among the definitions and are
	// ignored. Default: any kind that is not plumbline's is refused.
	IgnoreKinds []string `json:"ignoreKinds,omitempty"`
	// Approve are digests of held changes that the commit approves: status.held.digest of a NodeSync whose
	// spec.guard.approveFrom is Git. A digest that is not held has no effect.
	Approve []string `json:"approve,omitempty"`
	// Substitute are the variables for ${NAME}, in addition to the built-in CLUSTER_NAME and REGION.
	Substitute map[string]string `json:"substitute,omitempty"`
}

// IgnoreDifference names fields of objects, in the format of Argo CD.
type IgnoreDifference struct {
	Kind string `json:"kind"`
	// Name of the object. Default: all objects of the kind.
	Name string `json:"name,omitempty"`
	// JSONPointers lead to fields, by RFC 6901.
	JSONPointers []string `json:"jsonPointers,omitempty"`
	// ManagedFieldsManagers are field managers whose fields are all ignored.
	ManagedFieldsManagers []string `json:"managedFieldsManagers,omitempty"`
}

// Digests are the required digests of the two charts, as sha256:<hex>: of the manifest in an OCI registry, of the
// archive elsewhere.
type Digests struct {
	CRD        string `json:"karpenter-crd,omitempty"`
	Controller string `json:"karpenter,omitempty"`
}

// Cluster describes the cluster in AWS.
type Cluster struct {
	Name   string `json:"name"`
	Region string `json:"region"`
	// InterruptionQueue is the name of the SQS queue that receives EC2's interruption events. Default: the chart's
	// values decide.
	InterruptionQueue string `json:"interruptionQueue,omitempty"`
	// ControllerRole is the ARN of the IAM role that Karpenter's service account assumes with IRSA. Default: the
	// chart's values decide; EKS Pod Identity needs none.
	ControllerRole string `json:"controllerRole,omitempty"`
}

// ValuesFrom names an object of the cluster that holds values.
type ValuesFrom struct {
	// Kind is ConfigMap or Secret.
	Kind string `json:"kind"`
	Name string `json:"name"`
	// ValuesKey is the key that holds the values. Default: values.yaml.
	ValuesKey string `json:"valuesKey,omitempty"`
	// TargetPath is the path of the one value that the key holds, in the notation of Helm's --set. Default: the key
	// holds values in YAML.
	TargetPath string `json:"targetPath,omitempty"`
	// Optional reports whether the object may be missing.
	Optional bool `json:"optional,omitempty"`
}

// String returns kind, name and key, as kubectl writes them.
func (v ValuesFrom) String() string {
	return fmt.Sprintf("%s %s, key %s", strings.ToLower(v.Kind), v.Name, v.ValuesKey)
}

// The kinds of ValuesFrom.
const (
	FromConfigMap = "ConfigMap"
	FromSecret    = "Secret"
)

// Unread is what may be unknown when an upgrade starts.
type Unread string

// UnreadIAM is the policies of the role of Karpenter's controller.
const UnreadIAM Unread = "iam"

// Management decides who installs Karpenter's charts.
type Management string

// The values of Management.
const (
	// Managed charts are installed by plumbline.
	Managed Management = "Managed"
	// External charts are installed by another client; plumbline waits for their CRDs and controller, and for those of
	// Version if it is set.
	External Management = "External"
)

// chartFolder returns the folder of a repository that is a path, from the root of the Git repository; ok is false for a
// URL.
func (k *Karpenter) chartFolder(folder string) (name string, ok bool) {
	if k.Repository != "." && !strings.HasPrefix(k.Repository, "./") && k.Repository != ".." && !strings.HasPrefix(k.Repository, "../") {
		return "", false
	}
	return path.Join(folder, k.Repository), true
}

// ChartRepository returns where both charts are: a URL, or, if inside is true, a folder of the Snapshot, from its root.
// name is the path of plumbline.yaml's folder.
func (k *Karpenter) ChartRepository(name string) (repository string, inside bool, err error) {
	folder, err := cleanPath(name)
	if err != nil {
		return "", false, err
	}
	if found, ok := k.chartFolder(folder); ok {
		return found, true, nil
	}
	return k.Repository, false, nil
}

// charts returns the folder that holds charts and no definitions; it is empty if the walk cannot reach one, or if it is
// the root of the walk.
func (k *Karpenter) charts(folder string) string {
	if found, ok := k.chartFolder(folder); ok && found != folder {
		return found
	}
	return ""
}

// Files gives access to a Snapshot's files outside of a render, to a reader whose result is rendered later: pass its
// Inputs to the render with WithInputs.
type Files struct {
	*tree
}

// maxChartBytes limits one file, and all files together.
const maxChartBytes = 16 << 20

// NewFiles returns the files of a Snapshot.
func NewFiles(snap Snapshot) *Files {
	limits := DefaultLimits()
	limits.FileBytes = maxChartBytes
	return &Files{newTree(snap.FS, &allowance{limits: limits})}
}

// Inputs returns what was read so far.
func (f *Files) Inputs() Inputs { return f.inputs.clone() }

// valuesFiles returns the files with values, from the root of the Git repository.
func (k *Karpenter) valuesFiles(folder string) []string {
	var names []string
	for _, entry := range k.ValuesFiles {
		names = append(names, path.Join(folder, entry))
	}
	return names
}

// ReadValues reads the files with values of the main chart, in order, with their null entries. name is the path of
// plumbline.yaml's folder. Errors: Errors with everything that is wrong in them.
func (k *Karpenter) ReadValues(files *Files, name string) ([]map[string]any, error) {
	folder, err := cleanPath(name)
	if err != nil {
		return nil, err
	}
	var all []map[string]any
	var errs Errors
	for i, file := range k.valuesFiles(folder) {
		data, err := files.ReadFile(file)
		if errors.Is(err, fs.ErrNotExist) {
			errs = append(errs,
				Error{File: path.Join(folder, FileName), Message: fmt.Sprintf("valuesFiles entry %q is not in the repository", k.ValuesFiles[i])})
			continue
		}
		if err != nil {
			return nil, limited(file, fmt.Errorf("read %s: %w", file, err))
		}
		values, problems := k.decodeValues(file, data)
		errs, all = append(errs, problems...), append(all, values)
	}
	if len(errs) > 0 {
		return nil, errs.sorted()
	}
	return all, nil
}

// decodeValues decodes the text of a file with values.
func (k *Karpenter) decodeValues(file string, data []byte) (map[string]any, Errors) {
	documents, err := document.Parse(data)
	switch {
	case err != nil:
		return nil, Errors{textError(file, err)}
	case len(documents) == 0:
		return nil, nil // an empty file has no values, as with Helm
	case len(documents) > 1:
		return nil, Errors{{
			File: file, Line: documents[1].Line, Message: fmt.Sprintf("it holds %d documents, but must hold one", len(documents)),
		}}
	}
	doc := documents[0]
	whole, err := doc.WithNulls()
	if err != nil {
		return nil, Errors{textError(file, err)}
	}
	values, ok := whole.(map[string]any)
	if !ok {
		return nil, Errors{{File: file, Line: doc.Line, Message: "it holds no map of values"}}
	}
	if kind, version := values["kind"], values["apiVersion"]; kind != nil && version != nil {
		return nil, Errors{{File: file, Line: doc.LineOf("kind"), Message: fmt.Sprintf("it contains a %v, not chart values: as one of valuesFiles it would no longer be a definition, and its objects would be removed: remove it from valuesFiles", kind)}}
	}
	var errs Errors
	readable := values
	if sops.Encrypted(values) {
		readable = sops.Plain(values) // what is decrypted is checked with the charts
	}
	for _, p := range contradictions(k.Cluster, readable, "") {
		errs = append(errs, Error{File: file, Line: doc.LineOf(p.path), Message: p.message})
	}
	return values, errs
}

// The apiVersion and kind of plumbline.yaml.
const (
	ConfigAPIVersion = "config.plumbline.dev/v1alpha1"
	ConfigKind       = "Karpenter"
)

// The defaults of empty fields of plumbline.yaml.
const (
	DefaultRepository = "oci://public.ecr.aws/karpenter"
	DefaultNamespace  = "kube-system"
	DefaultValuesKey  = "values.yaml"
)

func (k *Karpenter) setDefaults() {
	if k.Management == "" {
		k.Management = Managed
	}
	if k.Repository == "" && (k.Management == Managed || k.Version != "") {
		k.Repository = DefaultRepository
	}
	if k.Namespace == "" {
		k.Namespace = DefaultNamespace
	}
	if len(k.Nodes) == 0 {
		k.Nodes = []string{"."}
	}
	for i := range k.ValuesFrom {
		if k.ValuesFrom[i].ValuesKey == "" {
			k.ValuesFrom[i].ValuesKey = DefaultValuesKey
		}
	}
}

var (
	// https://docs.aws.amazon.com/AWSSimpleQueueService/latest/APIReference/API_CreateQueue.html, but not a FIFO queue:
	// EventBridge's rules for Karpenter do not send to one.
	queueName = regexp.MustCompile(`^[A-Za-z0-9_-]{1,80}$`)
	// https://docs.aws.amazon.com/IAM/latest/UserGuide/reference_identifiers.html#identifiers-arns
	roleARN = regexp.MustCompile(`^arn:aws[a-z-]*:iam::[0-9]{12}:role/[\x21-\x7e]+$`)
	// https://docs.aws.amazon.com/eks/latest/APIReference/API_CreateCluster.html
	clusterName = regexp.MustCompile(`^[0-9A-Za-z][A-Za-z0-9_-]{0,99}$`)
	regionName  = regexp.MustCompile(`^[a-z]{2,}(-[a-z]+)+-[0-9]+$`)
)

// check returns what is wrong, with the field of each problem. folder is that of plumbline.yaml.
func (k *Karpenter) check(folder string) []problem {
	var found []problem
	add := func(path, format string, args ...any) {
		found = append(found, problem{path, fmt.Sprintf(format, args...)})
	}
	if k.APIVersion != ConfigAPIVersion {
		add("apiVersion", "apiVersion is %q, but must be %s", k.APIVersion, ConfigAPIVersion)
	}
	if k.Kind != ConfigKind {
		add("kind", "kind is %q, but must be %s", k.Kind, ConfigKind)
	}
	if !clusterName.MatchString(k.Cluster.Name) {
		add("cluster.name", "cluster.name is %q: give the name of the EKS cluster", k.Cluster.Name)
	}
	if !regionName.MatchString(k.Cluster.Region) {
		add("cluster.region", "cluster.region is %q: give the AWS region of the cluster, such as eu-west-1", k.Cluster.Region)
	}
	if len(validation.IsDNS1123Label(k.Namespace)) > 0 {
		add("namespace", "namespace %q is not the name of a namespace", k.Namespace)
	}
	found = append(found, k.checkManagement()...)
	found = append(found, k.checkUntested()...)
	found = append(found, k.checkUnread()...)
	found = append(found, k.checkCharts(folder)...)
	found = append(found, k.checkCluster()...)
	found = append(found, contradictions(k.Cluster, k.Values, "values.")...)
	found = append(found, k.checkValuesFrom()...)
	found = append(found, k.checkValuesFiles(folder)...)
	found = append(found, k.checkIgnored()...)
	found = append(found, k.checkNodes()...)
	found = append(found, k.checkApprove()...)
	found = append(found, k.checkIgnoredKinds()...)
	return append(found, k.checkSubstitute()...)
}

func (k *Karpenter) checkManagement() []problem {
	var found []problem
	switch k.Management {
	case Managed:
		if _, err := semver.StrictNewVersion(k.Version); err != nil {
			found = append(found,
				problem{"version", fmt.Sprintf("version is %q: give one full version such as 1.15.0, without a v and without a range", k.Version)})
		}
	case External:
		found = append(found, k.checkExternal()...)
	default:
		found = append(found, problem{"management", fmt.Sprintf("management is %q, but must be %s or %s", k.Management, Managed, External)})
	}
	return found
}

// checkExternal accepts only the fields that define which version to wait for.
func (k *Karpenter) checkExternal() []problem {
	var found []problem
	if k.Version != "" {
		if _, err := semver.StrictNewVersion(k.Version); err != nil {
			found = append(found,
				problem{"version", fmt.Sprintf("version is %q: give the one full version to wait for, such as 1.15.0, or leave it out", k.Version)})
		}
	} else {
		for _, set := range []struct {
			field string
			given bool
		}{{"repository", k.Repository != ""}, {"digests", k.Digests != Digests{}}} {
			if set.given {
				found = append(found,
					problem{set.field, fmt.Sprintf("%s is for charts, and management External without a version looks at none", set.field)})
			}
		}
	}
	if k.Adopt {
		found = append(found, problem{"adopt", "adopt cannot be given with management External: nothing is adopted then"})
	}
	for _, set := range []struct {
		field string
		given bool
	}{
		{"values", k.Values != nil},
		{"valuesFiles", k.ValuesFiles != nil},
		{"valuesFrom", k.ValuesFrom != nil},
		{"ignoreDifferences", k.IgnoreDifferences != nil},
		{"acceptUntested", k.AcceptUntested != nil},
		{"acceptUnread", k.AcceptUnread != ""},
		{"cluster.interruptionQueue", k.Cluster.InterruptionQueue != ""},
		{"cluster.controllerRole", k.Cluster.ControllerRole != ""},
	} {
		if set.given {
			found = append(found,
				problem{set.field, set.field + " cannot be given with management External: the tool that installs Karpenter decides it"})
		}
	}
	return found
}

// sha256Digest matches a digest as OCI writes it.
var sha256Digest = regexp.MustCompile(`^sha256:[0-9a-f]{64}$`)

// checkCharts checks where the charts come from. The downloader reports mistakes in the URL itself.
func (k *Karpenter) checkCharts(folder string) []problem {
	if k.Management != Managed && k.Version == "" {
		return nil
	}
	var found []problem
	for _, pin := range []struct{ chart, digest string }{{"karpenter-crd", k.Digests.CRD}, {"karpenter", k.Digests.Controller}} {
		if pin.digest != "" && !sha256Digest.MatchString(pin.digest) {
			found = append(found,
				problem{"digests." + pin.chart, fmt.Sprintf("digests.%s is %q, but must be sha256: and 64 hexadecimal digits", pin.chart, pin.digest)})
		}
	}
	place, isPath := k.chartFolder(folder)
	switch {
	case isPath && (place == ".." || strings.HasPrefix(place, "../")):
		found = append(found, problem{"repository", fmt.Sprintf("repository %q leads out of the Git repository", k.Repository)})
	case !isPath && !slices.ContainsFunc([]string{"oci://", "https://", "http://"}, func(scheme string) bool { return strings.HasPrefix(k.Repository, scheme) }):
		found = append(found, problem{"repository", fmt.Sprintf("repository is %q: give an OCI registry, oci://host/path, a Helm repository, https://host/path, or a folder of this Git repository, which begins with ./", k.Repository)})
	}
	return found
}

// untested matches the name and version of one product.
var untested = regexp.MustCompile(`^(karpenter [0-9]+\.[0-9]+\.[0-9]+\S*|kubernetes 1\.[0-9]+)$`)

// checkUntested accepts only single versions: a range would accept versions that nobody has checked.
func (k *Karpenter) checkUntested() []problem {
	var found []problem
	for i, entry := range k.AcceptUntested {
		if !untested.MatchString(entry) {
			found = append(found, problem{
				fmt.Sprintf("acceptUntested[%d]", i),
				fmt.Sprintf("acceptUntested entry %q names no version: write karpenter 1.16.0 or kubernetes 1.38, as the message of what is held does",
					entry),
			})
		}
	}
	return found
}

// checkUnread accepts only what plumbline knows.
func (k *Karpenter) checkUnread() []problem {
	if k.AcceptUnread == "" || k.AcceptUnread == UnreadIAM {
		return nil
	}
	return []problem{{"acceptUnread", fmt.Sprintf("acceptUnread is %q, but must be %s", k.AcceptUnread, UnreadIAM)}}
}

// checkNodes confines the definitions to the folder of plumbline.yaml.
func (k *Karpenter) checkNodes() []problem {
	var found []problem
	for i, entry := range k.Nodes {
		cleaned := path.Clean(entry)
		if strings.ContainsRune(entry, 0) {
			found = append(found, problem{fmt.Sprintf("nodes[%d]", i), fmt.Sprintf("nodes entry %q is no path", entry)})
			continue
		}
		if entry == "" || path.IsAbs(entry) || cleaned == ".." || strings.HasPrefix(cleaned, "../") {
			found = append(found, problem{
				fmt.Sprintf("nodes[%d]", i),
				fmt.Sprintf("nodes entry %q is not below this folder; a base elsewhere is used by a kustomization in this one", entry),
			})
		}
	}
	return found
}

func (k *Karpenter) checkSubstitute() []problem {
	var found []problem
	builtIn := builtIns(k.Cluster)
	for _, name := range slices.Sorted(maps.Keys(k.Substitute)) {
		at := "substitute." + name
		if _, taken := builtIn[name]; taken {
			found = append(found, problem{at, fmt.Sprintf("substitute.%s is built in, and comes from cluster", name)})
		} else if !variableName.MatchString(name) {
			found = append(found, problem{at, fmt.Sprintf("substitute.%s is not a name: letters, digits and _, no digit first", name)})
		}
	}
	return found
}

// checkCluster checks the fields of cluster that end up in the values.
func (k *Karpenter) checkCluster() []problem {
	var found []problem
	if queue := k.Cluster.InterruptionQueue; queue != "" && !queueName.MatchString(queue) {
		found = append(found, problem{
			"cluster.interruptionQueue",
			fmt.Sprintf("cluster.interruptionQueue is %q: give the name of an SQS queue, neither its URL nor its ARN", queue),
		})
	}
	if role := k.Cluster.ControllerRole; role != "" && !roleARN.MatchString(role) {
		found = append(found, problem{
			"cluster.controllerRole",
			fmt.Sprintf("cluster.controllerRole is %q: give the ARN of an IAM role, arn:aws:iam::<account>:role/<name>", role),
		})
	}
	return found
}

// contradictions returns the chart values that contradict cluster: a controller with another clusterName loses track of
// every node. at is the prefix of their paths.
func contradictions(cluster Cluster, values map[string]any, at string) []problem {
	var found []problem
	for _, c := range contradiction.Of(contradiction.Cluster{
		Name: cluster.Name, Region: cluster.Region, InterruptionQueue: cluster.InterruptionQueue, ControllerRole: cluster.ControllerRole,
	}, values, at) {
		found = append(found, problem{c.Path, c.Error()})
	}
	return found
}

// maxValues limits the files, and the objects of the cluster, that hold values of the chart: each of them is read and
// merged on every render.
const maxValues = 32

// checkValuesFrom checks the references to objects of the cluster.
func (k *Karpenter) checkValuesFrom() []problem {
	var found []problem
	if n := len(k.ValuesFrom); n > maxValues {
		return append(found, problem{"valuesFrom", fmt.Sprintf("valuesFrom has %d entries: at most %d are allowed", n, maxValues)})
	}
	for i, from := range k.ValuesFrom {
		at := fmt.Sprintf("valuesFrom[%d]", i)
		if from.Kind != FromConfigMap && from.Kind != FromSecret {
			found = append(found,
				problem{at + ".kind", fmt.Sprintf("%s.kind is %q, but must be %s or %s", at, from.Kind, FromConfigMap, FromSecret)})
		}
		if len(validation.IsDNS1123Subdomain(from.Name)) > 0 {
			found = append(found,
				problem{at + ".name", fmt.Sprintf("%s.name is %q: give the name of a %s in the NodeSync's namespace", at, from.Name, from.Kind)})
		}
		if strings.ContainsAny(from.TargetPath, ",=") {
			found = append(found, problem{
				at + ".targetPath",
				fmt.Sprintf("%s.targetPath is %q: give the path of one value, without a comma or an equals sign", at, from.TargetPath),
			})
		}
		if from.Kind == FromSecret && strings.HasSuffix(strings.ReplaceAll(from.TargetPath, `\`, ""), "].name") {
			found = append(found, problem{at + ".targetPath", fmt.Sprintf("%s.targetPath is %q: a Secret gives no element of a list its name, by which messages call it: write the name in Git, and take the value from the Secret", at, from.TargetPath)})
		}
		if len(validation.IsConfigMapKey(from.ValuesKey)) > 0 {
			found = append(found, problem{at + ".valuesKey", fmt.Sprintf("%s.valuesKey is %q, which no %s can have", at, from.ValuesKey, from.Kind)})
		}
	}
	return found
}

// checkValuesFiles confines the files to the repository.
func (k *Karpenter) checkValuesFiles(folder string) []problem {
	var found []problem
	if n := len(k.ValuesFiles); n > maxValues {
		return append(found, problem{"valuesFiles", fmt.Sprintf("valuesFiles has %d entries: at most %d are allowed", n, maxValues)})
	}
	for i, name := range k.valuesFiles(folder) {
		entry := k.ValuesFiles[i]
		if strings.ContainsRune(entry, 0) {
			found = append(found, problem{fmt.Sprintf("valuesFiles[%d]", i), fmt.Sprintf("valuesFiles entry %q is no path", entry)})
			continue
		}
		if entry == "" || path.IsAbs(entry) || name == ".." || strings.HasPrefix(name, "../") {
			found = append(found, problem{
				fmt.Sprintf("valuesFiles[%d]", i),
				fmt.Sprintf("valuesFiles entry %q leads out of the Git repository: give a path from this folder", entry),
			})
		}
	}
	return found
}

// maxApprove limits the digests that are approved in plumbline.yaml: each counts once, and nobody reads a list that is
// never cleared.
const maxApprove = 100

// shownLength is the length of a digest for people: 26 characters of base32 carry 130 bits. With fewer than 128 bits a
// committer could search for two plans with the same shown digest.
const shownLength = 26

// shownDigest matches what ShownDigest returns.
var shownDigest = regexp.MustCompile(fmt.Sprintf(`^[a-z2-7]{%d}$`, shownLength))

// ShownDigest returns the form in which people read, copy and type the digest of a held change: the first 130 bits of a
// sha256:<hex> digest in base32 (RFC 4648) in lower case. It is one word of 26 characters, which leaves space for a
// sentence in the 140 characters of a commit status. Any other text is returned unchanged.
func ShownDigest(digest string) string {
	digits, found := strings.CutPrefix(digest, "sha256:")
	raw, err := hex.DecodeString(digits)
	if shown := strings.ToLower(base32.StdEncoding.EncodeToString(raw)); found && err == nil && len(shown) >= shownLength {
		return shown[:shownLength]
	}
	return digest
}

// NamesDigest reports whether typed, which a person wrote, is the digest: in its original or its shown form, each in
// full.
func NamesDigest(typed, digest string) bool {
	return typed != "" && (typed == digest || typed == ShownDigest(digest))
}

// checkApprove accepts only complete digests: a prefix can match two plans.
func (k *Karpenter) checkApprove() []problem {
	if n := len(k.Approve); n > maxApprove {
		return []problem{{
			"approve", fmt.Sprintf("approve has %d digests, but at most %d are allowed: remove those of what was done", n, maxApprove),
		}}
	}
	var found []problem
	for i, digest := range k.Approve {
		if !sha256Digest.MatchString(digest) && !shownDigest.MatchString(digest) {
			found = append(found, problem{
				fmt.Sprintf("approve[%d]", i),
				fmt.Sprintf("approve entry %q is not the digest of a plan: copy all %d characters that plumbline shows, or sha256: and 64 digits as in status.held.digest of the NodeSync", digest, shownLength),
			})
		}
	}
	return found
}

// ignorable returns the kinds of the objects in Karpenter's two charts.
func ignorable() []string {
	return []string{
		"ClusterRole", "ClusterRoleBinding", "CustomResourceDefinition", "Deployment", "PodDisruptionBudget",
		"Role", "RoleBinding", "Secret", "Service", "ServiceAccount", "ServiceMonitor",
	}
}

// checkIgnored reports entries of ignoreDifferences that would ignore nothing, or everything.
func (k *Karpenter) checkIgnored() []problem {
	var found []problem
	for n, i := range k.IgnoreDifferences {
		at := fmt.Sprintf("ignoreDifferences[%d]", n)
		if !slices.Contains(ignorable(), i.Kind) {
			found = append(found, problem{
				at + ".kind", fmt.Sprintf("%s.kind is %q, and the charts make none: give one of %s", at, i.Kind, strings.Join(ignorable(), ", ")),
			})
		}
		if len(i.JSONPointers)+len(i.ManagedFieldsManagers) == 0 {
			found = append(found, problem{at, fmt.Sprintf("%s ignores nothing: give jsonPointers, managedFieldsManagers or both", at)})
		}
		for m, pointer := range i.JSONPointers {
			field := fmt.Sprintf("%s.jsonPointers[%d]", at, m)
			switch {
			case !leadsToField(pointer):
				found = append(found,
					problem{field, fmt.Sprintf("%s is %q: give the path of a field, such as /spec/template/spec/tolerations", field, pointer)})
			case i.Kind == "CustomResourceDefinition" && strings.HasPrefix(pointer, "/spec/versions"):
				found = append(found,
					problem{field, fmt.Sprintf("%s is %q: a CRD whose schema is not the chart's does not fit its controller", field, pointer)})
			}
		}
		for m, manager := range i.ManagedFieldsManagers {
			if manager == "" {
				found = append(found, problem{
					fmt.Sprintf("%s.managedFieldsManagers[%d]", at, m),
					fmt.Sprintf("%s.managedFieldsManagers[%d] is empty: give the name of a field manager", at, m),
				})
			}
		}
	}
	return found
}

// leadsToField reports whether a JSON pointer is valid, and leads to less than a whole object or its name.
func leadsToField(pointer string) bool {
	whole := []string{"/apiVersion", "/kind", "/metadata", "/metadata/name", "/metadata/namespace", "/spec"}
	return strings.HasPrefix(pointer, "/") && !strings.HasSuffix(pointer, "/") && !slices.Contains(whole, pointer)
}
