//! Textures and surfaces as the model has them.

use gridmux_channel::control::object;
use gridmux_hw_model::texture::{AddressMode, Channel, Extent, Image, Object, Sampler, Texture};

/// Returns what the model makes of a tenant's description, which it checks itself.
pub(super) fn object_of(asked: &object::Object) -> Object {
    match asked {
        object::Object::Surface(image) => Object::Surface(image_of(image)),
        object::Object::Texture(image, sampler) => Object::Texture(Texture {
            image: image_of(image),
            sampler: Sampler {
                address_modes: sampler.address_modes.map(mode_of),
                linear: sampler.linear,
                normalized: sampler.normalized,
            },
            normalized_float: sampler.normalized_float,
        }),
    }
}

fn image_of(image: &object::Image) -> Image {
    let [width, height, depth] = image.size;
    let layers = image.layers;
    Image {
        address: image.address,
        extent: match image.shape {
            object::Shape::Buffer => Extent::Buffer { width },
            object::Shape::OneD => Extent::OneD { width, layers },
            object::Shape::TwoD => Extent::TwoD {
                width,
                height,
                layers,
            },
            object::Shape::ThreeD => Extent::ThreeD {
                width,
                height,
                depth,
            },
        },
        row_bytes: image.row_bytes,
        channel: match image.channel {
            object::Channel::U8 => Channel::U8,
            object::Channel::U16 => Channel::U16,
            object::Channel::U32 => Channel::U32,
            object::Channel::S8 => Channel::S8,
            object::Channel::S16 => Channel::S16,
            object::Channel::S32 => Channel::S32,
            object::Channel::F16 => Channel::F16,
            object::Channel::F32 => Channel::F32,
        },
        channels: image.channels,
    }
}

fn mode_of(mode: object::AddressMode) -> AddressMode {
    match mode {
        object::AddressMode::Wrap => AddressMode::Wrap,
        object::AddressMode::Mirror => AddressMode::Mirror,
        object::AddressMode::Clamp => AddressMode::Clamp,
        object::AddressMode::Border => AddressMode::Border,
    }
}
