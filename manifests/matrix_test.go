package manifests

import (
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/Masterminds/semver/v3"

	versions "github.com/plumbline-dev/plumbline/provision/karpenter"
)

// supported is a row of the support matrix: versions of Karpenter, and the versions of Kubernetes that they support.
type supported struct {
	from, to   *semver.Version
	kubernetes string
}

// readMatrix reads the rows of a text, such as `| 1.0.5 to 1.1 | 1.25 to 1.31 |`. A version without a patch means all of
// its patches.
func readMatrix(text string) []supported {
	var rows []supported
	for _, row := range regexp.MustCompile(`(?m)^\| (\d+\.\d+\.\d+) to (\d+\.\d+)(\.\d+)? \| ([^|]+) \|$`).FindAllStringSubmatch(text, -1) {
		patch := row[3]
		if patch == "" {
			patch = ".999"
		}
		rows = append(rows, supported{semver.MustParse(row[1]), semver.MustParse(row[2] + patch), row[4]})
	}
	return rows
}

// wrongRows returns the versions up to the newest for which a matrix differs from the code.
func wrongRows(t *testing.T, rows []supported) (wrong []string) {
	t.Helper()
	newest := semver.MustParse(versions.Newest())
	for minor := uint64(0); minor <= newest.Minor(); minor++ {
		for patch := uint64(0); patch < 20; patch++ {
			version := semver.New(newest.Major(), minor, patch, "", "")
			if version.GreaterThan(newest) {
				continue
			}
			want, err := versions.KubernetesOf(version.String())
			if err != nil {
				t.Fatal(err)
			}
			got := "no row"
			for _, row := range rows {
				if !version.LessThan(row.from) && !version.GreaterThan(row.to) {
					got = row.kubernetes
				}
			}
			if got != want.String() {
				wrong = append(wrong, fmt.Sprintf("karpenter %s: the page has %s, the code %s", version, got, want))
			}
		}
	}
	return wrong
}

// TestTheSupportMatrixIsTheCodes compares the page with provision/karpenter and go.mod.
func TestTheSupportMatrixIsTheCodes(t *testing.T) {
	page, err := os.ReadFile("../docs/reference/support-matrix.md")
	if err != nil {
		t.Fatal(err)
	}
	rows := readMatrix(string(page))
	for _, wrong := range wrongRows(t, rows) {
		t.Error(wrong)
	}
	if len(wrongRows(t, rows[1:])) == 0 {
		t.Error("a row that is missing is not found")
	}
	if want := "| 1.0.0 to " + versions.Newest() + " |"; !strings.Contains(string(page), want) {
		t.Errorf("the page does not have %q", want)
	}
	modules, err := os.ReadFile("../go.mod")
	if err != nil {
		t.Fatal(err)
	}
	linked := regexp.MustCompile(`github.com/aws/karpenter-provider-aws v(\S+)`).FindStringSubmatch(string(modules))
	if linked == nil || !strings.Contains(string(page), "plumbline links Karpenter "+linked[1]+" ") {
		t.Errorf("go.mod has %v, the page another version", linked)
	}
}
