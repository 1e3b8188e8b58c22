package audit

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
)

// Report is what `plumbline audit` prints.
type Report struct {
	Clusters []Cluster `json:"clusters"`
	Findings []Finding `json:"findings"`
}

// Names returns the names that the controllers of a cluster use, Queues their queues, Roles their roles, and Karpenter
// their versions, each in the order of the controllers.
func (c Cluster) Names() string {
	return c.each(func(one Controller) string { return one.ClusterName })
}

// Queues returns the interruption queues.
func (c Cluster) Queues() string { return c.each(func(one Controller) string { return one.Queue }) }

// Roles returns the names of the roles.
func (c Cluster) Roles() string {
	return c.each(func(one Controller) string { return one.RoleARN[strings.LastIndex(one.RoleARN, "/")+1:] })
}

// Karpenter returns the versions; "unknown" if no context reaches the cluster.
func (c Cluster) Karpenter() string {
	if c.Context == "" {
		return "unknown"
	}
	return c.each(func(one Controller) string { return one.Version })
}

func (c Cluster) each(of func(Controller) string) string {
	var all []string
	for _, one := range c.Controllers {
		if text := of(one); text != "" {
			all = append(all, text)
		}
	}
	return strings.Join(all, ", ")
}

// TagList returns the tags as KEY=VALUE, sorted.
func (c Cluster) TagList() string {
	var all []string
	for _, key := range slices.Sorted(maps.Keys(c.Tags)) {
		all = append(all, key+"="+c.Tags[key])
	}
	return strings.Join(all, ",")
}

// cell is a text in a cell of a table in Markdown.
var cell = strings.NewReplacer("|", `\|`, "\n", " ")

// WriteMarkdown writes the Report for a page or a comment: a table of the clusters, then the findings.
func (r Report) WriteMarkdown(out io.Writer) error {
	var b strings.Builder
	b.WriteString("## plumbline audit\n\n| account | region | cluster | context | Karpenter | name in use | queue | role | endpoint | tags |\n")
	b.WriteString("|---|---|---|---|---|---|---|---|---|---|\n")
	for _, c := range r.Clusters {
		for _, text := range []string{
			c.Account, c.Region, c.Name, c.Context, c.Karpenter(), c.Names(), c.Queues(), c.Roles(), c.Endpoint, c.TagList(),
		} {
			fmt.Fprintf(&b, "| %s ", cell.Replace(text))
		}
		b.WriteString("|\n")
	}
	b.WriteString("\n")
	for _, f := range r.Findings {
		fmt.Fprintf(&b, "- **%s**: %s\n", f.Kind, cell.Replace(f.Message))
		if f.Fix != "" {
			fmt.Fprintf(&b, "  - fix: %s\n", cell.Replace(f.Fix))
		}
	}
	if len(r.Findings) == 0 {
		b.WriteString("Nothing was found.\n")
	}
	_, err := io.WriteString(out, b.String())
	return err
}
