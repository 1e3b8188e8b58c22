package nodegroup

import (
	"fmt"
	"strings"

	"go.yaml.in/yaml/v3"
)

// object returns a definition.
func object(apiVersion, kind, name string, annotations map[string]string, spec *yaml.Node) *yaml.Node {
	return fields(
		field{key: "apiVersion", value: apiVersion}, field{key: "kind", value: kind},
		field{key: "metadata", value: fields(field{key: "name", value: name}, field{key: "annotations", value: annotations})},
		field{key: "spec", value: spec},
	)
}

// amiTerms returns the field of an alias.
func amiTerms(alias string) field {
	comment := "To see what is newer: plumbline images."
	if strings.HasSuffix(alias, "@latest") {
		comment = "This family has no alias of a version: each release of AWS replaces the nodes."
	}
	return field{key: "amiSelectorTerms", value: []*yaml.Node{fields(field{key: "alias", value: alias})}, comment: comment}
}

func classRef(name string) field {
	return field{key: "nodeClassRef", value: fields(
		field{key: "group", value: "karpenter.k8s.aws"}, field{key: "kind", value: "EC2NodeClass"}, field{key: "name", value: name},
	)}
}

// ids returns terms that select by ID.
func ids(of []string) (terms []*yaml.Node) {
	for _, id := range of {
		terms = append(terms, fields(field{key: "id", value: id}))
	}
	return terms
}

// subnets returns the terms of subnets, each with its zone.
func (r *Result) subnets(found Found, object string, of []string) ([]*yaml.Node, error) {
	if len(of) == 0 {
		return nil, fmt.Errorf("EKS cluster %s: no subnet for nodes found", found.Cluster)
	}
	if len(of) > mostTerms {
		r.note(Decide, object, "subnetSelectorTerms",
			"%d subnets are used today, and an EC2NodeClass has at most %d terms: these are the first ones; select the others by a tag", len(of), mostTerms)
		of = of[:mostTerms]
	}
	terms := ids(of)
	for i, id := range of {
		if zone := found.Subnets[id].Zone; zone != "" {
			terms[i].Content[1].LineComment = "# " + zone
		}
	}
	return terms, nil
}

func requirement(key, operator string, values ...string) *yaml.Node {
	if operator == "In" && len(values) == 0 {
		return nil
	}
	return fields(field{key: "key", value: key}, field{key: "operator", value: operator}, field{key: "values", value: values})
}

// requirements leaves out those that are nil.
func requirements(of ...*yaml.Node) (all []*yaml.Node) {
	for _, one := range of {
		if one != nil {
			all = append(all, one)
		}
	}
	return all
}

// limits returns the limits of a NodePool; memory is left out if it is 0.
func limits(cpu, mib int64, comment string) field {
	of := []field{{key: "cpu", value: number(cpu)}}
	if mib > 0 {
		of = append(of, field{key: "memory", value: fmt.Sprintf("%dMi", mib)})
	}
	return field{key: "limits", value: fields(of...), comment: comment}
}

// disruption returns how Karpenter removes nodes that are not needed.
func disruption(after string) field {
	return field{key: "disruption", value: fields(
		field{key: "consolidationPolicy", value: "WhenEmptyOrUnderutilized"}, field{key: "consolidateAfter", value: after},
		field{key: "budgets", value: []*yaml.Node{fields(field{key: "nodes", value: "10%"})}},
	)}
}
