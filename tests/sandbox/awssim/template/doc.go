// Package template reads the templates of CloudFormation and evaluates their intrinsic functions.
//
// It parses JSON, and YAML with the short forms of the functions, checks what CloudFormation checks before it creates
// anything, in CloudFormation's own words, and orders resources by their dependencies. It knows no type of resource, has
// no state and calls no service.
//
// https://docs.aws.amazon.com/AWSCloudFormation/latest/UserGuide/template-anatomy.html
package template
