package manifests

import (
	"bytes"
	"fmt"
	"net/url"
	"os"
	"path"
	"regexp"
	"strings"
	"testing"
	"testing/fstest"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"github.com/plumbline-dev/plumbline/internal/markdown"
	"github.com/plumbline-dev/plumbline/render"
	"github.com/plumbline-dev/plumbline/render/schema"
)

// ownPages is the address of the repository's files on the web. Documents link to files by relative paths instead, so
// that a reader stays in the version that is checked out.
const ownPages = "https://github.com/plumbline-dev/plumbline/blob/main/"

func documents(t *testing.T) map[string]*markdown.Document {
	t.Helper()
	all, err := markdown.All("..")
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// follow returns what is wrong with a link of a document; empty if its target exists.
func follow(all map[string]*markdown.Document, from, to string) string {
	if own, isOwn := strings.CutPrefix(to, ownPages); isOwn {
		return "it leaves the checkout: write the relative path of " + own
	}
	target, err := url.Parse(to)
	switch {
	case err != nil:
		return err.Error()
	case target.Scheme != "":
		return "" // another site
	}
	file := from
	if target.Path != "" {
		file = path.Join(path.Dir(from), target.Path)
	}
	if _, err := os.Stat("../" + file); err != nil {
		return "there is no " + file
	}
	if target.Fragment != "" && (all[file] == nil || !all[file].Anchors[target.Fragment]) {
		return "there is no heading #" + target.Fragment + " in " + file
	}
	return ""
}

// TestLinksLeadSomewhere: the target of each link to a file of the project, and of each anchor, exists.
func TestLinksLeadSomewhere(t *testing.T) {
	all, looked := documents(t), 0
	for file, document := range all {
		for _, link := range document.Links {
			looked++
			if wrong := follow(all, file, link.To); wrong != "" {
				t.Errorf("%s:%d: [](%s): %s", file, link.Line, link.To, wrong)
			}
		}
	}
	if looked < 150 {
		t.Errorf("%d links were looked at", looked)
	}
}

// TestEachPageIsReached: links from docs/index.md lead to each page. The decisions are a folder that CONTRIBUTING.md
// names.
func TestEachPageIsReached(t *testing.T) {
	all := documents(t)
	reached, queue := map[string]bool{"docs/index.md": true}, []string{"docs/index.md"}
	for ; len(queue) > 0; queue = queue[1:] {
		for _, link := range all[queue[0]].Links {
			name, _, _ := strings.Cut(link.To, "#")
			if to := path.Join(path.Dir(queue[0]), name); all[to] != nil && !reached[to] {
				reached[to] = true
				queue = append(queue, to)
			}
		}
	}
	for file := range all {
		if strings.HasPrefix(file, "docs/") && !strings.HasPrefix(file, "docs/decisions/") && !reached[file] {
			t.Errorf("no link leads to %s", file)
		}
	}
}

func TestBrokenLinksAreFound(t *testing.T) {
	all := documents(t)
	for link, want := range map[string]string{
		"how-to/none.md":            "there is no docs/how-to/none.md",
		"index.md#no-heading":       "there is no heading #no-heading in docs/index.md",
		"../manifests/SPEC.md":      "",
		"../no.md":                  "there is no no.md",
		ownPages + "README.md":      "it leaves the checkout",
		"https://karpenter.sh":      "",
		"../README.md#installation": "there is no heading #installation",
	} {
		if got := follow(all, "docs/index.md", link); !strings.HasPrefix(got, want) || (want == "") != (got == "") {
			t.Errorf("%s: %q, want %q", link, got, want)
		}
	}
}

// checker validates YAML against the schema of its kind.
type checker struct {
	sync, definitions *schema.Validator
}

// nodeSyncCRD returns the CRD of NodeSyncs as it is installed.
func nodeSyncCRD(t *testing.T) *apiextensionsv1.CustomResourceDefinition {
	t.Helper()
	raw, err := os.ReadFile("crd/plumbline.dev_nodesyncs.yaml")
	if err != nil {
		t.Fatal(err)
	}
	crd := &apiextensionsv1.CustomResourceDefinition{}
	if err := yaml.UnmarshalStrict(raw, crd); err != nil {
		t.Fatal(err)
	}
	return crd
}

func newChecker(t *testing.T) checker {
	t.Helper()
	own := nodeSyncCRD(t)
	apiextensionsv1.SetDefaults_CustomResourceDefinitionSpec(&own.Spec)
	embedded, _, err := schema.Embedded()
	if err != nil {
		t.Fatal(err)
	}
	var c checker
	if c.sync, err = schema.New([]*apiextensionsv1.CustomResourceDefinition{own}); err == nil {
		c.definitions, err = schema.New(embedded)
	}
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// ofShell replaces shell variables in YAML that a command writes.
var ofShell = strings.NewReplacer("${GIT_URL}", "https://git.example.com/acme/fleet.git", "${GIT_PROVIDER}", "github",
	"${CHARTS}", "oci://registry.example.com/karpenter", "${CLUSTER_NAME}", "prod-eu", "${REGION}", "eu-west-1",
	"${SANDBOX_CHARTS}", "oci://127.0.0.1:5000/karpenter", "${SANDBOX_CLUSTER}", "sandbox", "${AWS_REGION}", "eu-west-1")

// check returns what is wrong with one document, and whether there is a schema for it.
func (c checker) check(t *testing.T, text []byte) (known bool, problems []string) {
	var object unstructured.Unstructured
	if err := yaml.UnmarshalStrict(text, &object.Object); err != nil {
		return true, []string{err.Error()}
	}
	switch object.GetKind() {
	case "Karpenter":
		_, err := render.ReadKarpenter(render.Snapshot{FS: fstest.MapFS{"plumbline.yaml": {Data: text}}}, ".")
		if err != nil {
			problems = append(problems, err.Error())
		}
		return true, problems
	case "NodeSync", "NodePool", "EC2NodeClass":
		of := c.definitions
		if object.GetKind() == "NodeSync" {
			of = c.sync
		}
		for _, problem := range of.Validate(t.Context(), &object) {
			problems = append(problems, problem.Error())
		}
		return true, problems
	}
	return false, nil
}

// yamlOf returns the YAML of a block: its own, or what one of its commands gets by `<<EOF`.
func yamlOf(block markdown.Block) (texts [][]byte) {
	text := []byte(block.Text)
	if block.Language != "yaml" {
		text = nil
		for _, heredoc := range regexp.MustCompile(`(?ms)<<'?EOF'?.*?\n(.*?)^EOF$`).FindAllStringSubmatch(block.Text, -1) {
			text = append(text, "\n---\n"+heredoc[1]...)
		}
		text = []byte(ofShell.Replace(string(text)))
	}
	return bytes.Split(append([]byte("\n"), text...), []byte("\n---\n"))
}

// TestYAMLIsValid: the API server accepts what a reader copies.
func TestYAMLIsValid(t *testing.T) {
	c, looked := newChecker(t), 0
	for file, document := range documents(t) {
		for _, block := range document.Blocks {
			if block.Language != "yaml" && block.Language != "sh" {
				continue
			}
			for _, text := range yamlOf(block) {
				known, problems := c.check(t, text)
				if known {
					looked++
				}
				for _, problem := range problems {
					t.Errorf("%s:%d: %s\n%s", file, block.Line, problem, text)
				}
			}
		}
	}
	if looked < 12 {
		t.Errorf("%d objects were looked at", looked)
	}
}

func TestWrongYAMLIsFound(t *testing.T) {
	c := newChecker(t)
	for name, text := range map[string]string{
		"a field of a NodeSync":   "apiVersion: plumbline.dev/v1alpha1\nkind: NodeSync\nmetadata: {name: a}\nspec: {source: {git: {url: 'https://h/r'}}, pace: 1}\n",
		"a NodeSync with nothing": "apiVersion: plumbline.dev/v1alpha1\nkind: NodeSync\nmetadata: {name: a}\nspec: {}\n",
		"a pool without a class":  "apiVersion: karpenter.sh/v1\nkind: NodePool\nmetadata: {name: a}\nspec: {template: {spec: {requirements: []}}}\n",
		"plumbline.yaml":          "apiVersion: config.plumbline.dev/v1alpha1\nkind: Karpenter\ncluster: {name: a}\n",
	} {
		if known, problems := c.check(t, []byte(text)); !known || len(problems) == 0 {
			t.Errorf("%s: nothing is wrong: %s", name, fmt.Sprint(problems))
		}
	}
}
