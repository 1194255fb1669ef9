// Oracle prints the answers of the libraries that OpenShift's MCO uses, so that the crates ignition and machineconfig
// can be compared with them.
//
// It reads one JSON question a line and prints the question again with the answer in it, so that its output can be its input:
//
//	{"ask":"merge","configs":[IGNITION,…]}   the merged configuration, empty members left out
//	{"ask":"validate","config":IGNITION}     whether it is fatal, and the report
//	{"ask":"dataurl","url":"data:…"}         the bytes, base64
//	{"ask":"yaml","value":ANY}               the YAML of the value
//	{"ask":"name","spec":SPEC}               the MD5 of salt and YAML of a MachineConfig's spec
//
// All files whose name ends in .jsonl in ../fixtures and in src/ignition/tests/fixtures are made so: go run . < merge.jsonl > merge.jsonl.new
package main

import (
	"bufio"
	"bytes"
	"crypto/md5"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"log"
	"os"
	"reflect"
	"strings"

	ign "github.com/coreos/ignition/v2/config/v3_5"
	"github.com/coreos/ignition/v2/config/v3_5/types"
	"github.com/ghodss/yaml"
	"github.com/vincent-petithory/dataurl"
)

const salt = "107ccee48b38afaf4fe586769d9ad36e195d2ffdac6a2507ae0da0b96e115734db830cceda8d7487bcb5c097e93e7ea54053b3770fa8d0c5926b3ae385bcee1a211aebca20ad1fea2990944f06ce1716"

type question struct {
	Ask     string            `json:"ask"`
	Config  json.RawMessage   `json:"config"`
	Configs []json.RawMessage `json:"configs"`
	URL     string            `json:"url"`
	Value   json.RawMessage   `json:"value"`
	Spec    json.RawMessage   `json:"spec"`
}

// spec is the part of a MachineConfig that is hashed: each member is printed, whatever it holds.
type spec struct {
	OSImageURL                     string          `json:"osImageURL"`
	BaseOSExtensionsContainerImage string          `json:"baseOSExtensionsContainerImage"`
	Config                         json.RawMessage `json:"config,omitempty"`
	KernelArguments                []string        `json:"kernelArguments"`
	Extensions                     []string        `json:"extensions"`
	FIPS                           bool            `json:"fips"`
	KernelType                     string          `json:"kernelType"`
}

func main() {
	in := bufio.NewScanner(os.Stdin)
	in.Buffer(make([]byte, 1<<20), 1<<26)
	out := json.NewEncoder(os.Stdout)
	out.SetEscapeHTML(false)
	for in.Scan() {
		var q question
		line := map[string]json.RawMessage{}
		if err := errors.Join(json.Unmarshal(in.Bytes(), &q), json.Unmarshal(in.Bytes(), &line)); err != nil {
			log.Fatal(err)
		}
		answer, err := q.answer()
		if err != nil {
			answer = map[string]string{"error": err.Error()}
		}
		var text bytes.Buffer
		inner := json.NewEncoder(&text)
		inner.SetEscapeHTML(false)
		if err := inner.Encode(answer); err != nil {
			log.Fatal(err)
		}
		line["answer"] = text.Bytes()
		if err := out.Encode(line); err != nil {
			log.Fatal(err)
		}
	}
}

func (q question) answer() (any, error) {
	switch q.Ask {
	case "merge":
		var merged types.Config
		for i, raw := range q.Configs {
			config, report, err := ign.ParseCompatibleVersion(raw)
			if err != nil {
				return nil, fmt.Errorf("%w: %s", err, report)
			}
			if i == 0 {
				merged = config
			} else {
				merged = ign.Merge(merged, config)
			}
		}
		return printed(reflect.ValueOf(merged)), nil
	case "validate":
		_, report, err := ign.ParseCompatibleVersion(q.Config)
		return map[string]any{"fatal": err != nil || report.IsFatal(), "report": report.String()}, nil
	case "dataurl":
		url, err := dataurl.DecodeString(q.URL)
		if err != nil {
			return nil, err
		}
		return base64.StdEncoding.EncodeToString(url.Data), nil
	case "yaml":
		text, err := yaml.JSONToYAML(q.Value)
		return string(text), err
	case "name":
		var s spec
		if err := json.Unmarshal(q.Spec, &s); err != nil {
			return nil, err
		}
		if s.KernelArguments == nil {
			s.KernelArguments = []string{}
		}
		if s.Extensions == nil {
			s.Extensions = []string{}
		}
		text, err := yaml.Marshal(s)
		if err != nil {
			return nil, err
		}
		grains, err := hex.DecodeString(salt)
		if err != nil {
			return nil, err
		}
		sum := md5.Sum(bytes.Join([][]byte{grains, text}, nil))
		return map[string]string{"md5": hex.EncodeToString(sum[:]), "yaml": string(text)}, nil
	}
	return nil, fmt.Errorf("unknown question %q", q.Ask)
}

// printed does what the original's JSON library does and the standard one does not: structures that hold nothing are left out too.
func printed(v reflect.Value) any {
	switch v.Kind() {
	case reflect.Pointer:
		return printed(v.Elem())
	case reflect.Slice:
		items := make([]any, 0, v.Len())
		for i := range v.Len() {
			items = append(items, printed(v.Index(i)))
		}
		return items
	case reflect.Struct:
		members := map[string]any{}
		for i := range v.NumField() {
			field := v.Type().Field(i)
			if field.Anonymous {
				for name, member := range printed(v.Field(i)).(map[string]any) {
					members[name] = member
				}
				continue
			}
			name, option, _ := strings.Cut(field.Tag.Get("json"), ",")
			if option == "omitempty" && empty(v.Field(i)) {
				continue
			}
			members[name] = printed(v.Field(i))
		}
		return members
	default:
		return v.Interface()
	}
}

func empty(v reflect.Value) bool {
	switch v.Kind() {
	case reflect.Slice:
		return v.Len() == 0
	case reflect.Struct:
		for i := range v.NumField() {
			if !empty(v.Field(i)) {
				return false
			}
		}
		return true
	default:
		return v.IsZero()
	}
}
