//! RFC 8785: the published number sequence, the RFC's own example, and an independent implementation
//! as the oracle.

#![expect(clippy::unwrap_used, reason = "a test stops at the first surprise")]

use std::fmt::Write as _;

use proptest::prelude::*;
use serde_json::{Value, json};
use workrail_model::canonical::{CanonicalError, double_text, value_to_canonical};
use workrail_model::digest::Sha256;
use workrail_model::strict_json;

/// The fixed beginning of the published sequence, as IEEE 754 bits.
const FIXED: [u64; 168] = [
    0x0000_0000_0000_0000,
    0x8000_0000_0000_0000,
    0x0000_0000_0000_0001,
    0x8000_0000_0000_0001,
    0xc466_9669_5dbd_1cc3,
    0xc432_11ed_e497_4a35,
    0xc3fc_e97c_a0f2_1056,
    0xc3c7_2130_80c1_a6ac,
    0xc392_80f3_9a34_8556,
    0xc35d_9b1f_5d20_d557,
    0xc327_af4c_4a80_aaac,
    0xc2f2_f2a3_6ecd_5556,
    0xc2be_5105_7e15_5558,
    0xc288_40d1_31aa_aaac,
    0xc253_670d_c155_5557,
    0xc21f_0b49_3555_5557,
    0xc1e8_d5d4_2aaa_aaac,
    0xc1b3_de43_5555_5556,
    0xc17f_ca05_5555_5556,
    0xc149_6e6a_aaaa_aaab,
    0xc114_5855_5555_5555,
    0xc0e0_46aa_aaaa_aaab,
    0xc0aa_0aaa_aaaa_aaaa,
    0xc074_d555_5555_5555,
    0xc040_aaaa_aaaa_aaab,
    0xc00a_aaaa_aaaa_aaab,
    0xbfd5_5555_5555_5555,
    0xbfa1_1111_1111_1111,
    0xbf6b_4e81_b4e8_1b4f,
    0xbf35_d867_c3ec_e2a5,
    0xbf01_79ec_9cbd_821e,
    0xbecb_f647_612f_3696,
    0xbe96_5e9f_80f2_9212,
    0xbe61_e54c_6728_74db,
    0xbe2c_a213_d840_baf8,
    0xbdf6_e80f_e033_c8c6,
    0xbdc2_533f_e68f_d3d2,
    0xbd8d_51ff_d74c_861c,
    0xbd57_74cc_ac3d_3817,
    0xbd22_c3d6_f030_f9ac,
    0xbcee_0624_b381_8f79,
    0xbcb8_04ea_2934_72c7,
    0xbc83_3721_ba90_5bd3,
    0xbc4e_be9c_5db3_c61e,
    0xbc18_987d_17c3_04e5,
    0xbbe3_ad30_dfcf_371d,
    0xbbaf_7b81_6618_582f,
    0xbb79_2f9a_b813_79bf,
    0xbb44_2615_600f_9499,
    0xbb10_1e77_800c_76e1,
    0xbad9_ca58_cce0_be35,
    0xbaa4_a1e0_a3e6_fe90,
    0xba70_8180_831f_320d,
    0xba3a_68cd_9e98_5016,
    0x4466_9669_5dbd_1cc3,
    0x4432_11ed_e497_4a35,
    0x43fc_e97c_a0f2_1056,
    0x43c7_2130_80c1_a6ac,
    0x4392_80f3_9a34_8556,
    0x435d_9b1f_5d20_d557,
    0x4327_af4c_4a80_aaac,
    0x42f2_f2a3_6ecd_5556,
    0x42be_5105_7e15_5558,
    0x4288_40d1_31aa_aaac,
    0x4253_670d_c155_5557,
    0x421f_0b49_3555_5557,
    0x41e8_d5d4_2aaa_aaac,
    0x41b3_de43_5555_5556,
    0x417f_ca05_5555_5556,
    0x4149_6e6a_aaaa_aaab,
    0x4114_5855_5555_5555,
    0x40e0_46aa_aaaa_aaab,
    0x40aa_0aaa_aaaa_aaaa,
    0x4074_d555_5555_5555,
    0x4040_aaaa_aaaa_aaab,
    0x400a_aaaa_aaaa_aaab,
    0x3fd5_5555_5555_5555,
    0x3fa1_1111_1111_1111,
    0x3f6b_4e81_b4e8_1b4f,
    0x3f35_d867_c3ec_e2a5,
    0x3f01_79ec_9cbd_821e,
    0x3ecb_f647_612f_3696,
    0x3e96_5e9f_80f2_9212,
    0x3e61_e54c_6728_74db,
    0x3e2c_a213_d840_baf8,
    0x3df6_e80f_e033_c8c6,
    0x3dc2_533f_e68f_d3d2,
    0x3d8d_51ff_d74c_861c,
    0x3d57_74cc_ac3d_3817,
    0x3d22_c3d6_f030_f9ac,
    0x3cee_0624_b381_8f79,
    0x3cb8_04ea_2934_72c7,
    0x3c83_3721_ba90_5bd3,
    0x3c4e_be9c_5db3_c61e,
    0x3c18_987d_17c3_04e5,
    0x3be3_ad30_dfcf_371d,
    0x3baf_7b81_6618_582f,
    0x3b79_2f9a_b813_79bf,
    0x3b44_2615_600f_9499,
    0x3b10_1e77_800c_76e1,
    0x3ad9_ca58_cce0_be35,
    0x3aa4_a1e0_a3e6_fe90,
    0x3a70_8180_831f_320d,
    0x3a3a_68cd_9e98_5016,
    0x4024_0000_0000_0000,
    0x4014_0000_0000_0000,
    0x3fe0_0000_0000_0000,
    0x3fa9_9999_9999_999a,
    0x3f74_7ae1_47ae_147b,
    0x3f40_624d_d2f1_a9fc,
    0x3f0a_36e2_eb1c_432d,
    0x3ed4_f8b5_88e3_68f1,
    0x3ea0_c6f7_a0b5_ed8d,
    0x3e6a_d7f2_9abc_af48,
    0x3e35_798e_e230_8c3a,
    0x3ed5_3922_3589_fa95,
    0x3ed4_ff26_cd5a_7781,
    0x3ed4_f95a_7622_83ff,
    0x3ed4_f8c6_0703_520c,
    0x3ed4_f8b7_2f19_cd0d,
    0x3ed4_f8b5_b31c_0c8d,
    0x3ed4_f8b5_8d1c_461a,
    0x3ed4_f8b5_894f_7f0e,
    0x3ed4_f8b5_88ee_37f3,
    0x3ed4_f8b5_88e4_7da4,
    0x3ed4_f8b5_88e3_849c,
    0x3ed4_f8b5_88e3_6bb5,
    0x3ed4_f8b5_88e3_6937,
    0x3ed4_f8b5_88e3_68f8,
    0x3ed4_f8b5_88e3_68f1,
    0x3ff0_0000_0000_0000,
    0xbff0_0000_0000_0000,
    0xbfef_ffff_ffff_fffa,
    0xbfef_ffff_ffff_fffb,
    0x3fef_ffff_ffff_fffa,
    0x3fef_ffff_ffff_fffb,
    0x3fef_ffff_ffff_fffc,
    0x3fef_ffff_ffff_fffe,
    0xbfef_ffff_ffff_ffff,
    0xbfef_ffff_ffff_ffff,
    0x3fef_ffff_ffff_ffff,
    0x3fef_ffff_ffff_ffff,
    0x3fd3_3333_3333_3332,
    0x3fd3_3333_3333_3333,
    0x3fd3_3333_3333_3334,
    0x0010_0000_0000_0000,
    0x000f_ffff_ffff_fffd,
    0x000f_ffff_ffff_ffff,
    0x7fef_ffff_ffff_ffff,
    0xffef_ffff_ffff_ffff,
    0x4340_0000_0000_0000,
    0xc340_0000_0000_0000,
    0x4430_0000_0000_0000,
    0x44b5_2d02_c7e1_4af5,
    0x44b5_2d02_c7e1_4af6,
    0x44b5_2d02_c7e1_4af7,
    0x444b_1ae4_d6e2_ef4e,
    0x444b_1ae4_d6e2_ef4f,
    0x444b_1ae4_d6e2_ef50,
    0x3eb0_c6f7_a0b5_ed8c,
    0x3eb0_c6f7_a0b5_ed8d,
    0x41b3_de43_5555_5553,
    0x41b3_de43_5555_5554,
    0x41b3_de43_5555_5555,
    0x41b3_de43_5555_5556,
    0x41b3_de43_5555_5557,
    0xbecb_f647_612f_3696,
    0x4314_3ff3_c1cb_0959,
];

/// How many consecutive doubles from the smallest normal one follow.
const SERIAL: u64 = 2000;

/// The published digests of the first lines of the sequence.
const PUBLISHED: [(usize, &str); 4] = [
    (1_000, "be18b62b6f69cdab33a7e0dae0d9cfa869fda80ddc712221570f9f40a5878687"),
    (10_000, "b9f7a8e75ef22a835685a52ccba7f7d6bdc99e34b010992cbc5864cd12be6892"),
    (100_000, "22776e6d4b49fa294a0d0f349268e5c28808fe7e0cb2bcbe28f63894e494d4c7"),
    (1_000_000, "49415fee2c56c77864931bd3624faad425c3c577d6d74e89a83bc725506dad16"),
];

/// The doubles of the sequence: fixed, serial, then a hash chain read as little-endian doubles.
fn sequence() -> impl Iterator<Item = f64> {
    let first_normal = 0x0010_0000_0000_0000;
    let mut block = [0; 32];
    let chain = std::iter::repeat_with(move || {
        block = *Sha256::of(&block).as_bytes();
        block
    })
    .flat_map(|block: [u8; 32]| {
        std::array::from_fn::<f64, 4, _>(|i| f64::from_le_bytes(block[i * 8..i * 8 + 8].try_into().unwrap()))
    })
    .filter(|double| *double != 0.0 && double.is_finite());
    FIXED.into_iter().chain(first_normal..first_normal + SERIAL).map(f64::from_bits).chain(chain)
}

#[test]
fn figure_published_number_sequence() {
    let mut lines = String::new();
    let mut published = PUBLISHED.iter();
    let (mut count, mut digest) = published.next().copied().unwrap();
    for (position, double) in sequence().enumerate() {
        let written = double_text(double);
        // What has a canonical form reads back as it was.
        match value_to_canonical(&json!(double)) {
            Ok(bytes) => {
                assert_eq!(bytes, written.as_bytes());
                assert_eq!(strict_json::parse(&bytes).unwrap().as_f64(), Some(double));
            }
            Err(_) => assert!(strict_json::parse(written.as_bytes()).is_err(), "{written}"),
        }
        writeln!(lines, "{:x},{written}", double.to_bits()).unwrap();
        if position + 1 == count {
            assert_eq!(Sha256::of(lines.as_bytes()).hex(), digest, "first {count} lines");
            match published.next() {
                Some((next_count, next_digest)) => (count, digest) = (*next_count, next_digest),
                None => break,
            }
        }
    }
    println!("figure: RFC 8785 published number digests, {count} lines, all equal");
}

/// G3: the canonical form is that of RFC 8785.
#[test]
fn the_example_of_the_rfc() {
    let input = br#"{
      "numbers": [333333333.33333329, 1E30, 4.50, 2e-3, 0.000000000000000000000000001],
      "string": "\u20ac$\u000F\u000aA'\u0042\u0022\u005c\\\"\/",
      "literals": [null, true, false]
    }"#;
    let expected = "{\"literals\":[null,true,false],\"numbers\":[333333333.3333333,1e+30,4.5,0.002,1e-27],\
                    \"string\":\"\u{20ac}$\\u000f\\nA'B\\\"\\\\\\\\\\\"/\"}";
    let value = strict_json::parse(input).unwrap();
    assert_eq!(String::from_utf8(value_to_canonical(&value).unwrap()).unwrap(), expected);
}

#[test]
fn keys_sort_by_utf16_units_as_the_rfc_shows() {
    let value = json!({
        "\u{20ac}": "Euro Sign", "\r": "Carriage Return", "\u{fb33}": "Hebrew Letter Dalet With Dagesh",
        "1": "One", "\u{1f600}": "Emoji: Grinning Face", "\u{80}": "Control",
        "\u{f6}": "Latin Small Letter O With Diaeresis",
    });
    let bytes = value_to_canonical(&value).unwrap();
    let text = String::from_utf8(bytes).unwrap();
    let order = ["Carriage", "One", "Control", "Latin", "Euro", "Emoji", "Hebrew"];
    let positions: Vec<_> = order.iter().map(|name| text.find(name).unwrap()).collect();
    assert!(positions.is_sorted(), "{text}");
}

#[test]
fn integers_beyond_double_precision_have_no_canonical_form() {
    let error = value_to_canonical(&json!({ "n": 9_007_199_254_740_993_u64 })).unwrap_err();
    assert_eq!(error, CanonicalError::UnsafeInteger { number: "9007199254740993".to_owned() });
    assert!(value_to_canonical(&json!(-9_007_199_254_740_993_i64)).is_err());
    assert!(value_to_canonical(&json!(9_007_199_254_740_991_u64)).is_ok());
    // As a double it is exact, but it is spelled like an integer, which no reader would accept.
    assert!(value_to_canonical(&json!(9_007_199_254_740_992.0)).is_err());
    assert!(value_to_canonical(&json!(1e21)).is_ok());
}

#[test]
fn nothing_too_deep_to_be_read_is_written() {
    let nested = |levels: usize| (0..levels).fold(json!(null), |inner, _| json!([inner]));
    let bytes = value_to_canonical(&nested(64)).unwrap();
    assert!(strict_json::parse(&bytes).is_ok());
    assert_eq!(value_to_canonical(&nested(65)), Err(CanonicalError::TooDeep));
}

fn json_value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::Bool),
        (-(1i64 << 53) + 1..1i64 << 53).prop_map(|n| json!(n)),
        any::<f64>()
            .prop_filter("finite", |double| double.is_finite())
            .prop_map(|double| json!(double))
            .prop_filter("canonical", |number| value_to_canonical(number).is_ok()),
        any::<String>().prop_map(Value::String),
    ];
    leaf.prop_recursive(4, 64, 8, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..8).prop_map(Value::Array),
            prop::collection::btree_map(any::<String>(), inner, 0..8)
                .prop_map(|members| Value::Object(members.into_iter().collect())),
        ]
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    /// G3: all writers produce the same bytes.
    #[test]
    fn equal_to_an_independent_implementation(value in json_value()) {
        let oracle = serde_json_canonicalizer::to_vec(&value).unwrap();
        prop_assert_eq!(value_to_canonical(&value).unwrap(), oracle);
    }

    #[test]
    fn canonical_bytes_read_back_and_write_the_same(value in json_value()) {
        let bytes = value_to_canonical(&value).unwrap();
        let read = strict_json::parse(&bytes).unwrap();
        prop_assert_eq!(value_to_canonical(&read).unwrap(), bytes);
    }

    #[test]
    fn doubles_survive_parsing(bits: u64) {
        // Without serde_json's `float_roundtrip`, about a third of random doubles are misread.
        let double = f64::from_bits(bits);
        prop_assume!(double.is_finite());
        let read: f64 = serde_json::from_str(&serde_json::to_string(&double).unwrap()).unwrap();
        prop_assert_eq!(read.to_bits(), double.to_bits());
    }
}
