package weigh

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
)

const (
	// longestQuantity is how many characters a quantity may have: the largest that
	// Kubernetes keeps, to the billionth and with its unit, has 32.
	longestQuantity = 64
	// mostExponent is the largest exponent of a quantity, and of its inverse: what is
	// beyond 10^19 is cut by Kubernetes.
	mostExponent = 99
)

// Quantity weighs a text that is to be read as a quantity. To read one takes the square of
// its digits in time, and with an exponent those that are not written count, too.
// Errors: *Error.
func Quantity(text string) error {
	if text = strings.TrimSpace(text); text == "" || !strings.ContainsRune("+-.0123456789", rune(text[0])) {
		return nil // no quantity, as every reader sees at once
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
		return nil // no exponent: "5E", "1Ei", or no quantity at all
	}
	if exponent, err := strconv.ParseUint(digits, 10, 64); err != nil || exponent > mostExponent {
		return &Error{Message: fmt.Sprintf("the exponent of a quantity is at most %d, and this one is %q", mostExponent, text)}
	}
	return nil
}

// Unfit is a quantity of an object that is too much to be read.
type Unfit struct {
	// Path of the field: "spec.limits.cpu".
	Path    string
	Message string
}

// Quantities weighs the texts of an object that its readers take for quantities: those of
// Karpenter's definitions and of a pod. They come in the order of their paths.
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

// free are the fields of which the keys below are the user's own, or name the fields of
// other objects: a CRD's schema has a field "limits", and a description of it.
func free() []string { return []string{"metadata", "tags", "openAPIV3Schema"} }

// amounts are the fields that hold a quantity.
func amounts() []string { return []string{"volumeSize", "sizeLimit", "divisor"} }

// lists are the fields that hold a map of quantities.
func lists() []string {
	return []string{
		"limits", "requests", "overhead",
		"kubeReserved", "systemReserved", "evictionHard", "evictionSoft",
	}
}
