package render_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestPlaceholders are warned of where nothing fills them in, and not where they are shell.
func TestPlaceholders(t *testing.T) {
	warns := func(path, found, name string) []string {
		return []string{"c.yaml:1: EC2NodeClass/c: " + path + " has " + found + ", which nothing fills in: write ${" + name + "}, and its value under substitute in plumbline.yaml where that is none of CLUSTER_NAME and REGION"}
	}
	class := "apiVersion: karpenter.k8s.aws/v1\nkind: EC2NodeClass\nmetadata: {name: c}\nspec:\n  role: node\n  amiSelectorTerms: [{alias: al2023@latest}]\n  subnetSelectorTerms: [{tags: {a: b}}]\n  securityGroupSelectorTerms: [{tags: {a: b}}]\n"
	for name, tc := range map[string]struct {
		text string
		want []string
	}{
		"double angle brackets": {strings.Replace(class, "role: node", "role: KarpenterNodeRole-<<CLUSTER_NAME>>", 1), warns("spec.role", "<<CLUSTER_NAME>>", "CLUSTER_NAME")},
		"angle brackets":        {strings.Replace(class, "role: node", "role: <ROLE>", 1), warns("spec.role", "<ROLE>", "ROLE")},
		"a template":            {strings.Replace(class, "role: node", "role: \"{{ .Values.role }}\"", 1), warns("spec.role", "{{ .Values.role }}", "NAME")},
		"a variable of shell":   {strings.Replace(class, "role: node", "role: KarpenterNodeRole-$CLUSTER_NAME", 1), warns("spec.role", "$CLUSTER_NAME", "CLUSTER_NAME")},
		"one of Make":           {strings.Replace(class, "role: node", "role: $(ROLE)", 1), warns("spec.role", "$(ROLE)", "ROLE")},
		"ERB":                   {strings.Replace(class, "role: node", "role: <%= role %>", 1), warns("spec.role", "<%= role %>", "role")},
		"Terraform":             {strings.Replace(class, "role: node", "role: \"%{ if x }a%{ endif }\"", 1), warns("spec.role", "%{ if x }", "NAME")},
		"Azure Pipelines":       {strings.Replace(class, "role: node", "role: '#{role}#'", 1), warns("spec.role", "#{role}#", "role")},
		"turned off":            {strings.Replace(class, "{name: c}", "{name: c, annotations: {plumbline.dev/substitute: disabled}}", 1) + "  tags: {a: $NAME}\n", nil},
		"money":                 {class + "  tags: {price: $5, share: 100%}\n", nil},
		"escaped for Flux": {
			class + "  userData: |\n    #!/bin/bash\n    cd $${DIR:-/tmp} && echo $$ ${X} $${CLUSTER_NAME}\n",
			[]string{"c.yaml:1: EC2NodeClass/c: line 2 of spec.userData has $${DIR:-/tmp}, where bash reads $$ as its process ID: write ${DIR:-/tmp}; unknown names stay as they are in spec.userData, without the escape of Flux and Terraform"},
		},
		"a key":        {class + "  tags: {<<TEAM>>: data}\n", warns("spec.tags.<<TEAM>>", "<<TEAM>>", "TEAM")},
		"shell":        {class + "  userData: |\n    cat <<EOF\n    <<NAME>> {{ x }}\n    EOF\n", nil},
		"a comparison": {class + "  tags: {team: a < b > c}\n", nil},
		"ours":         {strings.Replace(class, "role: node", "role: ${CLUSTER_NAME}", 1), nil},
	} {
		t.Run(name, func(t *testing.T) {
			set, err := renderAll(t, folder(map[string]string{"plumbline.yaml": plumblineYAML, "c.yaml": tc.text}), ".", nil)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.want, set.Warnings); diff != "" {
				t.Errorf("warnings (-want +got):\n%s", diff)
			}
		})
	}
}
