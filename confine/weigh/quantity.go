package weigh

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
)

const (
	// longestQuantity limits the characters of a quantity: the largest that Kubernetes keeps, to the billionth and with
	// its unit, has 32.
	longestQuantity = 64
	// maxExponent is the largest exponent of a quantity, and of its inverse: Kubernetes truncates what is beyond
	// 10^19.
	maxExponent = 99
)

// Quantity checks a string before it is parsed as a quantity. The parsing time grows with the square of the digits,
// including those of an exponent. Errors: *Error.
func Quantity(text string) error {
	if text = strings.TrimSpace(text); text == "" || !strings.ContainsRune("+-.0123456789", rune(text[0])) {
		return nil // not a quantity, which every parser detects at once
	}
	if strings.ContainsAny(text, " *()") {
		return nil // an expression in the settings of kubelet, which has no suffix of a quantity
	}
	if n := len(text); n > longestQuantity {
		return &Error{Message: fmt.Sprintf("a quantity has no more than %d characters, and this one has %d", longestQuantity, n)}
	}
	at := strings.LastIndexAny(text, "eE")
	if at < 0 {
		return nil
	}
	digits := strings.TrimLeft(text[at+1:], "+-")
	if strings.Trim(digits, "0123456789") != "" || digits == "" {
		return nil // no exponent: "5E", "1Ei", or not a quantity at all
	}
	if exponent, err := strconv.ParseUint(digits, 10, 64); err != nil || exponent > maxExponent {
		return &Error{Message: fmt.Sprintf("the exponent of a quantity is at most %d, and this one is %q", maxExponent, text)}
	}
	return nil
}

// Unfit is a quantity of an object that must not be parsed.
type Unfit struct {
	// Path of the field: "spec.limits.cpu".
	Path    string
	Message string
}

// Quantities checks the strings of an object that are parsed as quantities: those of Karpenter's definitions and of a
// pod. The result is sorted by path.
func Quantities(object map[string]any) []Unfit {
	return unfit("", object)
}

func unfit(path string, value any) []Unfit {
	var found []Unfit
	switch value := value.(type) {
	case map[string]any:
		for _, key := range slices.Sorted(maps.Keys(value)) {
			at := strings.TrimPrefix(path+"."+key, ".")
			switch {
			case slices.Contains(free(), key):
			case slices.Contains(amounts(), key):
				found = append(found, unfitText(at, value[key])...)
			case slices.Contains(lists(), key):
				entries, _ := value[key].(map[string]any)
				for _, name := range slices.Sorted(maps.Keys(entries)) {
					found = append(found, unfitText(at+"."+name, entries[name])...)
				}
			default:
				found = append(found, unfit(at, value[key])...)
			}
		}
	case []any:
		for i, item := range value {
			found = append(found, unfit(fmt.Sprintf("%s[%d]", path, i), item)...)
		}
	}
	return found
}

func unfitText(path string, value any) []Unfit {
	text, ok := value.(string)
	if !ok {
		return unfit(path, value)
	}
	if err := Quantity(text); err != nil {
		return []Unfit{{Path: path, Message: err.Error()}}
	}
	return nil
}

// free returns the fields whose keys below are the user's own, or name fields of other objects: a CRD's schema has a
// field "limits", and a description of it.
func free() []string { return []string{"metadata", "tags", "openAPIV3Schema"} }

// amounts returns the fields that contain a quantity.
func amounts() []string { return []string{"volumeSize", "sizeLimit", "divisor"} }

// lists returns the fields that contain a map of quantities.
func lists() []string {
	return []string{
		"limits", "requests", "overhead",
		"kubeReserved", "systemReserved", "evictionHard", "evictionSoft", "evictionMinimumReclaim",
	}
}
