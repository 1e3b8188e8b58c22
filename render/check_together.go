package render

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// checkTogether refuses requirements on one label that no machine can meet together. The
// NodePool would be Ready, and launch no node.
func checkTogether(object Object) []problem {
	byLabel := map[string][]map[string]any{}
	for _, r := range requirementsOf(object.Desired) {
		if key, _ := r["key"].(string); key != "" {
			byLabel[key] = append(byLabel[key], r)
		}
	}
	var found []problem
	for _, key := range slices.Sorted(maps.Keys(byLabel)) {
		if key == labelType || key == labelFamily || !contradict(byLabel[key]) {
			continue // of types and families checkInstances says more
		}
		var words []string
		for _, r := range byLabel[key] {
			words = append(words, strings.TrimSuffix(fmt.Sprintf("%v [%s]", r["operator"], someNames(texts(r["values"]))), " []"))
		}
		found = append(found, problem{"spec.template.spec.requirements", fmt.Sprintf(
			"%s: no node could be launched: the requirements on %s (the labels of the template are among them) contradict each other: %s",
			object.Ref, key, strings.Join(words, ", "))})
	}
	return found
}

// contradict says that no value of a label meets all requirements on it.
func contradict(requirements []map[string]any) bool {
	if len(requirements) < 2 {
		return false
	}
	if at := slices.IndexFunc(requirements, listsValues); at >= 0 {
		return !slices.ContainsFunc(texts(requirements[at]["values"]), func(value string) bool {
			return !slices.ContainsFunc(requirements, func(r map[string]any) bool { return !fitsOne(r, value) })
		})
	}
	above, below := bounds(requirements)
	return above != nil && below != nil && *above+1 >= *below || absentAndPresent(requirements)
}

func listsValues(r map[string]any) bool { return r["operator"] == "In" && len(texts(r["values"])) > 0 }

// absentAndPresent says that one requirement wants a label to be absent, and another wants a
// value of it.
func absentAndPresent(requirements []map[string]any) bool {
	has := func(operators ...string) bool {
		return slices.ContainsFunc(requirements, func(r map[string]any) bool {
			operator, _ := r["operator"].(string)
			return slices.Contains(operators, operator)
		})
	}
	return has("DoesNotExist") && has("Exists", "Gt", "Lt", "Gte", "Lte")
}

// bounds are the largest number that values have to be above, and the smallest that they have
// to be below; nil where there is none.
func bounds(requirements []map[string]any) (above, below *int) {
	for _, r := range requirements {
		values := texts(r["values"])
		if len(values) != 1 {
			continue
		}
		n, err := strconv.Atoi(values[0])
		if err != nil {
			continue
		}
		switch r["operator"] {
		case "Gt":
			above = higher(above, n)
		case "Gte":
			above = higher(above, n-1)
		case "Lt":
			below = lower(below, n)
		case "Lte":
			below = lower(below, n+1)
		}
	}
	return above, below
}

func higher(bound *int, n int) *int {
	if bound != nil && *bound > n {
		return bound
	}
	return &n
}

func lower(bound *int, n int) *int {
	if bound != nil && *bound < n {
		return bound
	}
	return &n
}
